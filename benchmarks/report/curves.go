package report

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// curves draws how the latencies of some contenders are distributed.
func curves(title string, names []string, all [][]measure.Point, tints []color.Color) (Plot, bool) {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 12
	p.Title.Padding = 3
	p.X.Label.Text = "share of all that took no longer"
	p.Y.Label.Text = "ms"
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 10, 10
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = decades{}
	p.X.Tick.Marker = nines{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size = 8
	p.Legend.Padding = 2
	sameTint := map[color.Color]int{} // each further line of a colour is dashed in another way
	least, most := math.Inf(1), 0.
	for i, points := range all {
		var line plotter.XYs
		for _, p := range points {
			if ms := float64(p.Nanoseconds) / 1e6; ms > 0 && p.Q < 1 {
				line = append(line, plotter.XY{X: nine(p.Q), Y: ms})
				least, most = min(least, ms), max(most, ms)
			}
		}
		l, err := plotter.NewLine(line)
		if err != nil {
			continue
		}
		l.Color, l.Width = tints[i], 1.5
		l.Dashes = [][]vg.Length{nil, {5, 2}, {1, 2}, {7, 2, 1, 2}}[sameTint[tints[i]]%4]
		sameTint[tints[i]]++
		p.Add(l)
		p.Legend.Add(names[i], l)
	}
	if most == 0 {
		return Plot{}, false
	}
	p.X.Min, p.X.Max = 0, 3
	p.Y.Min, p.Y.Max = least, most
	svg, err := render(p, 18*vg.Centimeter, 10*vg.Centimeter)
	return Plot{Name: fileName(title), Caption: title, SVG: svg}, err == nil
}

// nine stretches the axis of quantiles so that each further nine takes as much room.
func nine(q float64) float64 { return -math.Log10(1 - q) }

type nines struct{}

func (nines) Ticks(float64, float64) []plot.Tick {
	var ticks []plot.Tick
	for _, q := range []float64{0, .5, .9, .99, .999} {
		ticks = append(ticks, plot.Tick{Value: nine(q), Label: fmt.Sprintf("%v %%", 100*q)})
	}
	return ticks
}
