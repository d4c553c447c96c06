package bench

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// WritePlots writes throughput.svg, lag.svg, cost.svg and, beside that, at-large.svg into a
// directory, which is made where it is missing: those whose scenarios were run.
func (r *Report) WritePlots(dir string) error {
	if _, err := r.writePlots(dir); err != nil {
		return err
	}
	if result := r.result("cost"); result != nil && len(result.Rows) > 0 {
		if err := plotLarge(filepath.Join(dir, "at-large.svg")); err != nil {
			return fmt.Errorf("write plots: at-large.svg: %w", err)
		}
	}
	return nil
}

// writePlots writes those of what was measured, and returns their names.
func (r *Report) writePlots(dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write plots: %w", err)
	}
	for _, p := range []struct {
		name   string
		panels func() ([]*plot.Plot, error)
	}{{"throughput.svg", r.throughputPlot}, {"lag.svg", r.lagPlot}, {"cost.svg", r.costPlot}} {
		all, err := p.panels()
		if err == nil && len(all) > 0 {
			err, names = r.writePlot(filepath.Join(dir, p.name), all), append(names, p.name)
		}
		if err != nil {
			return nil, fmt.Errorf("write plots: %s: %w", p.name, err)
		}
	}
	return names, nil
}

const (
	plotWidth  = 20 * vg.Centimeter
	panelExtra = 3 * vg.Centimeter // of a panel's height, for what is not bars
	barHeight  = 0.8 * vg.Centimeter
)

// writePlot draws panels one below the other, the first under the title.
func (r *Report) writePlot(file string, panels []*plot.Plot) error {
	panels[0].Title.Text = panels[0].Title.Text + "\ncmd/bench, " + r.Date.Format("2006-01-02") + ", " + r.Machine
	var height vg.Length
	heights := make([]vg.Length, len(panels))
	for i, p := range panels {
		heights[i] = panelExtra + barHeight*vg.Length(max(4, p.Y.Max-p.Y.Min))
		if _, nominal := p.Y.Tick.Marker.(plot.ConstantTicks); !nominal {
			heights[i] = 10 * vg.Centimeter
		}
		height += heights[i]
	}
	canvas := vgsvg.New(plotWidth, height)
	whole := draw.New(canvas)
	whole.SetColor(color.White) // it is read on a dark page too
	whole.Fill(whole.Rectangle.Path())
	top := whole.Max.Y
	for i, p := range panels {
		p.Draw(draw.Crop(whole, vg.Points(6), -vg.Points(10), top-heights[i]-whole.Min.Y+vg.Points(6), top-whole.Max.Y-vg.Points(6)))
		top -= heights[i]
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(out)
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

// colorOf tells contestants and parts of a bill apart, for eyes that see few colors too.
func colorOf(name string) color.Color {
	switch name {
	case nameOurs, "requests":
		return color.RGBA{0x00, 0x72, 0xb2, 0xff}
	case nameUnmarked, nameFaster, nameCompany, "reads":
		return color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	case nameBlind, "writes":
		return color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	case nameSum, "instances":
		return color.RGBA{0x00, 0x9e, 0x73, 0xff}
	case "deletes":
		return color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	}
	return color.Gray{0x99}
}

// bar is one bar of a panel: parts on top of each other, of which a single one may have a spread.
type bar struct {
	name  string
	parts []float64
	label string
	Measure
}

// barPanel draws bars, the first on top. Names of parts, when there are several, get a legend.
func barPanel(title string, bars []bar, parts ...string) (*plot.Plot, error) {
	p := newPlot(title)
	p.X.Min, p.X.Padding = 0, 0
	p.X.Tick.Marker = ticks{}
	slices.Reverse(bars) // upwards
	var names []string
	labels := plotter.XYLabels{}
	for i, b := range bars {
		names = append(names, b.name)
		at, end := float64(i), b.High
		sum := 0.0
		for k, v := range b.parts {
			chart, err := plotter.NewBarChart(plotter.Values{v}, vg.Points(16))
			if err != nil {
				return nil, err
			}
			chart.Horizontal, chart.XMin, chart.LineStyle.Width = true, at, 0
			chart.Color = colorOf(b.name)
			if len(parts) > 0 {
				chart.Color = colorOf(parts[k])
				if i == 0 {
					p.Legend.Add(parts[k], chart)
				}
			}
			if k > 0 {
				below, err := plotter.NewBarChart(plotter.Values{sum}, vg.Points(16))
				if err != nil {
					return nil, err
				}
				below.XMin = at
				chart.StackOn(below)
			}
			sum += v
			p.Add(chart)
		}
		if b.Rounds > 1 {
			spread, err := plotter.NewLine(plotter.XYs{{X: b.Low, Y: at}, {X: b.High, Y: at}})
			if err != nil {
				return nil, err
			}
			p.Add(spread)
		}
		labels.XYs = append(labels.XYs, plotter.XY{X: max(sum, end), Y: at})
		labels.Labels = append(labels.Labels, b.label)
	}
	figures, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range figures.TextStyle {
		figures.TextStyle[i].YAlign, figures.TextStyle[i].Font.Variant = text.YCenter, "Sans"
	}
	figures.Offset.X = vg.Points(4)
	p.Add(figures)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.7, float64(len(bars))-0.3
	p.X.Max *= 1.15 // for the figures behind the bars
	if len(parts) > 0 {
		p.X.Max *= 1.2 // and for the legend
	}
	p.Legend.Top = true
	return p, nil
}

func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.Padding = title, vg.Points(6)
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	return p
}

// ticks are the usual ones, as this program writes numbers.
type ticks struct{}

func (ticks) Ticks(low, high float64) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(low, high)
	for i := range all {
		if all[i].Label != "" {
			all[i].Label = short(all[i].Value)
		}
	}
	return all
}

func (r *Report) throughputPlot() ([]*plot.Plot, error) {
	var panels []*plot.Plot
	for _, s := range []struct{ scenario, title string }{
		{"hot", "Increments a second, one hot counter"},
		{"zipf", "Increments a second, 1,000 counters by Zipf's law"},
		{"even", "Increments a second, 1,000 counters evenly"},
		{"events", "Roll-up events a second"},
	} {
		result := r.result(s.scenario)
		if result == nil || !result.measured() {
			continue
		}
		var bars []bar
		seen := map[string]bool{}
		for _, row := range result.Rows {
			if !seen[row.Contestant] { // the first load of each, which is the plain one
				seen[row.Contestant] = true
				m := row.Metrics[0]
				bars = append(bars, bar{row.Contestant, []float64{m.Median}, short(m.Median), m.Measure})
			}
		}
		p, err := barPanel(s.title, bars)
		if err != nil {
			return nil, err
		}
		panels = append(panels, p)
	}
	return panels, nil
}

func (r *Report) lagPlot() ([]*plot.Plot, error) {
	lag := r.result("lag")
	if lag == nil || len(lag.Lags) == 0 {
		return nil, nil
	}
	p := newPlot(fmt.Sprintf("Age of the oldest increment not in the total, at %s a second on documents of one write a second", short(lagRate)))
	p.X.Label.Text, p.Y.Label.Text = "seconds since the first increment", "seconds"
	p.Add(plotter.NewGrid())
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, ticks{}
	for _, l := range lag.Lags {
		points := make(plotter.XYs, len(l.Points))
		for i, at := range l.Points {
			points[i] = plotter.XY{X: at[0], Y: at[1]}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colorOf(l.Name), vg.Points(2)
		p.Add(line)
		p.Legend.Add(l.Name, line)
	}
	p.Legend.Top, p.Legend.Left = true, true
	return []*plot.Plot{p}, nil
}

func (r *Report) costPlot() ([]*plot.Plot, error) {
	result := r.result("cost")
	if result == nil {
		return nil, nil
	}
	var panels []*plot.Plot
	for _, place := range places {
		var bars []bar
		for _, row := range result.Rows {
			if row.PerMillion != nil {
				b := row.PerMillion.Costs[place].Cheaper
				bars = append(bars, bar{name: row.Contestant, parts: []float64{b.Reads, b.Writes, b.Deletes, b.Requests, b.Instances}, label: fmt.Sprintf("$%.2f", b.Total())})
			}
		}
		if len(bars) == 0 {
			continue
		}
		p, err := barPanel("US dollars per million increments at 1,000 a second, "+place+", each function billed its cheaper way, list prices of "+cost.AsOf, bars, "reads", "writes", "deletes", "requests", "instances")
		if err != nil {
			return nil, err
		}
		panels = append(panels, p)
	}
	return panels, nil
}
