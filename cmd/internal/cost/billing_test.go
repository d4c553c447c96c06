package cost

import "testing"

func TestSizeOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cpu, memory string
		want        Size
	}{
		{"1", "512Mi", Deployed}, {"0.5", "2Gi", Size{0.5, 2}}, {"2", "256M", Size{2, 256e6 / (1 << 30)}}, {"1", "1G", Size{1, 1e9 / (1 << 30)}},
		{"", "512Mi", Size{}}, {"0", "512Mi", Size{}}, {"1", "512", Size{}}, {"1", "Mi", Size{}}, {"1", "-1Gi", Size{}},
	} {
		if got, err := SizeOf(c.cpu, c.memory); got != c.want || (err != nil) != (c.want == Size{}) {
			t.Errorf("%q and %q: %v, %v, want %v", c.cpu, c.memory, got, err, c.want)
		}
	}
}
