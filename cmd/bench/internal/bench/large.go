package bench

import (
	"fmt"
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// plotLarge draws how far the bounds of a large deployment are used, over the rate of increments,
// as an SVG file. It is worked out on paper, the same on every machine.
func plotLarge(file string) error {
	points := cost.LargeTable()
	p := newPlot("How much of each bound is used: a hot counter with half of the increments,\nand a million lukewarm ones; 1 is where it ends")
	p.X.Label.Text = "increments a second"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	for _, line := range []struct {
		name  string
		color color.Color
		used  func(cost.Large) float64
	}{
		{"writes, on a database that has grown for an hour", colorOf(nameBlind), func(l cost.Large) float64 { return l.Ramped(time.Hour) }},
		{"writes of the hot counter's 1,000 shards", colorOf(nameOurs), func(l cost.Large) float64 { return l.Shards }},
		{"instances of Rollup, of 1,000", colorOf(nameSum), func(l cost.Large) float64 { return l.Rollups }},
		{"instances of Increment, of 1,000", colorOf(nameUnmarked), func(l cost.Large) float64 { return l.Increments }},
	} {
		var xys plotter.XYs
		for _, l := range points {
			xys = append(xys, plotter.XY{X: l.Rate, Y: line.used(l)})
		}
		drawn, err := plotter.NewLine(xys)
		if err != nil {
			return fmt.Errorf("plot %s: %w", line.name, err)
		}
		drawn.Color, drawn.Width = line.color, vg.Points(2)
		p.Add(drawn)
		p.Legend.Add(line.name, drawn)
	}
	end, err := plotter.NewLine(plotter.XYs{{X: points[0].Rate, Y: 1}, {X: points[len(points)-1].Rate, Y: 1}})
	if err != nil {
		return fmt.Errorf("plot the bound: %w", err)
	}
	end.Dashes = []vg.Length{vg.Points(4), vg.Points(4)}
	p.Add(end)
	if err := p.Save(plotWidth, 11*vg.Centimeter, file); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}
