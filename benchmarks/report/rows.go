package report

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// row is one line of a plot: the name of a contender, and dots.
type row struct {
	name string
	dots []dot
}

type dot struct {
	value  float64
	colour color.Color
}

// rowPlot is a plotter of rows, the first at the top.
type rowPlot struct {
	rows   []row
	legend []sign
}

// newRowPlot adds rows to a chart. A zero on a logarithmic axis stands at its left end.
func newRowPlot(p *plot.Plot, r rowPlot) *plot.Plot {
	p.Y.Min, p.Y.Max = -.6, float64(len(r.rows))-.4
	if len(r.legend) > 1 {
		p.Y.Max += .8 // room for it
	}
	var ticks []plot.Tick
	for i, l := range r.rows {
		ticks = append(ticks, plot.Tick{Value: r.y(i), Label: l.name})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	p.Add(r)
	return p
}

func (r rowPlot) y(i int) float64 { return float64(len(r.rows) - 1 - i) }

// Plot implements plot.Plotter.
func (r rowPlot) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	in := func(v float64) vg.Length { return x(min(max(v, p.X.Min), p.X.Max)) }
	pen := newPen(c, p)
	for i, l := range r.rows {
		at := y(r.y(i))
		c.StrokeLine2(draw.LineStyle{Color: color.Gray{225}, Width: .5}, c.Min.X, at, c.Max.X, at)
		for _, d := range l.dots {
			if finite(d.value) {
				pen.dot(vg.Point{X: in(d.value), Y: at}, d.colour)
			}
		}
	}
	if len(r.legend) > 1 {
		pen.legend(vg.Point{X: c.Min.X + 4, Y: y(float64(len(r.rows)) - .1)}, r.legend)
	}
}
