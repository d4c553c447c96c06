package bench

import "fmt"

// bar is one bar of a chart: of one value with its spread, or of parts on top of each other.
type bar struct {
	name  string
	value Measure
	parts []part
}

type part struct {
	name  string
	value float64
}

func (b bar) most() float64 {
	sum := b.value.High
	for _, p := range b.parts {
		sum += p.value
	}
	return sum
}

// panel is a group of bars on a scale of its own.
type panel struct {
	heading string
	unit    string // before the number when it is a currency's sign
	bars    []bar
}

func (p panel) label(v float64) string {
	if p.unit == "$" {
		return fmt.Sprintf("$%.2f", v)
	}
	return short(v) + p.unit
}

const (
	barHeight = 20.0
	barGap    = 8.0
	nameWidth = 120.0
	tailWidth = 130.0 // for the figure behind a bar
)

// barChart draws panels one below the other. Names of parts, when there are any, get a legend.
func barChart(title, below string, legend []string, panels []panel) string {
	s := &svg{width: plotWidth}
	y := s.title(title, below)
	if len(legend) > 0 {
		y = s.legend(y, legend)
	}
	for _, p := range panels {
		y = s.panel(y+8, p)
	}
	s.height = y + margin/2
	return s.String()
}

func (s *svg) panel(y float64, p panel) float64 {
	s.text(margin, y, 13, ink, "start", p.heading)
	y += 10
	most := 0.0
	for _, b := range p.bars {
		most = max(most, b.most())
	}
	x := newAxis(most, margin+nameWidth, plotWidth-tailWidth)
	bottom := y + float64(len(p.bars))*(barHeight+barGap) + barGap
	for _, v := range x.ticks() {
		s.line(x.at(v), y, x.at(v), bottom, grid, 1)
		s.text(x.at(v), bottom+15, 11, faint, "middle", p.label(v))
	}
	for i, b := range p.bars {
		top := y + barGap + float64(i)*(barHeight+barGap)
		s.text(margin+nameWidth-8, top+14, 12, ink, "end", b.name)
		at, value := 0.0, b.value.Median
		if len(b.parts) == 0 {
			s.rect(x.at(0), top, x.at(value)-x.at(0), barHeight, color(b.name))
			if b.value.Rounds > 1 {
				s.line(x.at(b.value.Low), top+barHeight/2, x.at(b.value.High), top+barHeight/2, ink, 1.5)
			}
		}
		for _, part := range b.parts {
			s.rect(x.at(at), top, x.at(at+part.value)-x.at(at), barHeight, color(part.name))
			at += part.value
			value = at
		}
		s.text(x.at(max(value, b.value.High))+8, top+14, 12, ink, "start", p.label(value))
	}
	s.line(x.at(0), y, x.at(0), bottom, faint, 1)
	return bottom + 34
}

// lineChart draws lines over time in seconds.
func lineChart(title, below, vertical string, lines []Line) string {
	s := &svg{width: plotWidth, height: 400}
	var names []string
	latest, most := 0.0, 0.0
	for _, l := range lines {
		names = append(names, l.Name)
		for _, p := range l.Points {
			latest, most = max(latest, p[0]), max(most, p[1])
		}
	}
	top := s.legend(s.title(title, below), names) + 16
	s.text(margin, top-12, 12, faint, "start", vertical)
	bottom := s.height - 48
	x, y := newAxis(latest, margin+34, plotWidth-margin), newAxis(most, bottom, top)
	for _, v := range y.ticks() {
		s.line(x.from, y.at(v), x.to, y.at(v), grid, 1)
		s.text(x.from-8, y.at(v)+4, 11, faint, "end", short(v))
	}
	for _, v := range x.ticks() {
		s.line(x.at(v), bottom, x.at(v), bottom+5, faint, 1)
		s.text(x.at(v), bottom+18, 11, faint, "middle", short(v))
	}
	s.line(x.from, bottom, x.to, bottom, faint, 1)
	s.text((x.from+x.to)/2, bottom+36, 12, faint, "middle", "seconds since the first increment")
	for _, l := range lines {
		points := make([][2]float64, len(l.Points))
		for i, p := range l.Points {
			points[i] = [2]float64{x.at(p[0]), y.at(p[1])}
		}
		s.polyline(points, color(l.Name))
	}
	return s.String()
}
