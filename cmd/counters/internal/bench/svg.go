package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// svg is a drawing of a fixed width, on white, so that it can be read on a dark page too.
type svg struct {
	body   strings.Builder
	width  float64
	height float64
}

const (
	plotWidth = 760.0
	margin    = 20.0
	ink       = "#222222"
	faint     = "#666666"
	grid      = "#e3e3e3"
)

// colors tell contestants and parts of a bill apart, for eyes that see few colors too.
func color(name string) string {
	switch name {
	case "ours", "requests":
		return "#0072b2"
	case "ours, no marker", "reads":
		return "#56b4e9"
	case "blind", "writes":
		return "#d55e00"
	case "sum", "instances":
		return "#009e73"
	case "deletes":
		return "#cc79a7"
	}
	return "#999999"
}

func (s *svg) text(x, y float64, size int, fill, anchor, text string) {
	fmt.Fprintf(&s.body, `<text x="%.1f" y="%.1f" font-size="%d" fill="%s" text-anchor="%s">%s</text>`+"\n", x, y, size, fill, anchor, html.EscapeString(text))
}

func (s *svg) rect(x, y, width, height float64, fill string) {
	fmt.Fprintf(&s.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, width, height, fill)
}

func (s *svg) line(x1, y1, x2, y2 float64, stroke string, width float64) {
	fmt.Fprintf(&s.body, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>`+"\n", x1, y1, x2, y2, stroke, width)
}

func (s *svg) polyline(points [][2]float64, stroke string) {
	s.body.WriteString(`<polyline fill="none" stroke-width="2" stroke-linejoin="round" stroke="` + stroke + `" points="`)
	for _, p := range points {
		fmt.Fprintf(&s.body, "%.1f,%.1f ", p[0], p[1])
	}
	s.body.WriteString("\"/>\n")
}

// title heads the drawing, and says below what was measured on what. It returns where the rest may begin.
func (s *svg) title(title, below string) float64 {
	s.text(margin, 30, 17, ink, "start", title)
	s.text(margin, 50, 12, faint, "start", below)
	return 74
}

// legend names colors in a row, from y on. It returns where the rest may begin.
func (s *svg) legend(y float64, names []string) float64 {
	x := margin
	for _, name := range names {
		s.rect(x, y-10, 12, 12, color(name))
		s.text(x+17, y, 12, ink, "start", name)
		x += 17 + 7*float64(len(name)) + 18
	}
	return y + 18
}

// String is the drawing as a file.
func (s *svg) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif">
<rect width="100%%" height="100%%" rx="6" fill="#ffffff"/>
%s</svg>
`, s.width, s.height, s.width, s.height, s.body.String())
}

// axis maps values from zero on to places.
type axis struct {
	from, to float64 // places of zero, and of most
	most     float64
	tick     float64
}

// newAxis takes values up to most, and ends with a round one.
func newAxis(most, from, to float64) axis {
	if most <= 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		most = 1
	}
	tick := math.Pow(10, math.Floor(math.Log10(most)))
	for _, step := range []float64{0.2, 0.5, 1, 2} {
		if most/(tick*step) <= 6 {
			tick *= step
			break
		}
	}
	return axis{from: from, to: to, most: math.Ceil(most/tick) * tick, tick: tick}
}

func (a axis) at(v float64) float64 { return a.from + (a.to-a.from)*v/a.most }

// ticks are the values that are labelled.
func (a axis) ticks() []float64 {
	var out []float64
	for i := 0; float64(i)*a.tick <= a.most*(1+1e-9); i++ {
		out = append(out, float64(i)*a.tick)
	}
	return out
}
