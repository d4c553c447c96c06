package rollup

import "time"

// at is a time in a test: n microseconds after some moment.
func at(n int) time.Time { return time.UnixMicro(1_800_000_000_000_000 + int64(n)).UTC() }
