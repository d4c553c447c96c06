package extension

import "time"

// A minute is long for a test.
func init() { pause = 200 * time.Millisecond }

// Takes is takes.
var Takes = takes
