package report

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// rates draws, for 16 clients that want one name, the time in which 99 of 100 acquisitions were
// done against their rate. It returns false if fewer than two contenders have both figures.
func rates(in Input) (Plot, bool) {
	var list []point
	for _, c := range in.Plan.Contenders {
		value := func(metric string) float64 {
			return measure.Median(in.Outcome.Results.Values(of("contended", sixteen, c.Name, metric)))
		}
		p := point{name: c.Name, rate: value("rate"), p99: value("acquire p99"), role: c.Role}
		if p.rate > 0 && p.p99 > 0 && !math.IsInf(p.rate, 0) && !math.IsInf(p.p99, 0) {
			list = append(list, p)
		}
	}
	if len(list) < 2 {
		return Plot{}, false
	}
	title := "Contended, 16 clients on one name"
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 12
	p.Title.Padding = 3
	p.X.Label.Text, p.Y.Label.Text = "acquisitions/s (right is better)", "p99, ms (low is better)"
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 10, 10
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = decades{}, decades{}
	p.X.Min, p.Y.Min = math.Inf(1), math.Inf(1)
	for _, l := range list {
		p.X.Min, p.X.Max = min(p.X.Min, l.rate/1.5), max(p.X.Max, l.rate*2)
		p.Y.Min, p.Y.Max = min(p.Y.Min, l.p99/1.5), max(p.Y.Max, l.p99*2)
	}
	p.Add(points(list))
	svg, err := render(p, 18*vg.Centimeter, 11*vg.Centimeter)
	return Plot{Name: fileName(title), Caption: title + ": time to acquire (p99) against rate", SVG: svg}, err == nil
}

// point is one contender in the plot of rates.
type point struct {
	name      string
	rate, p99 float64
	role      contender.Role
}

// points is a plotter: a dot for each, with its name where that covers nothing, and a legend.
type points []point

func (all points) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := text.Style{Color: color.Gray{60}, Font: plot.DefaultFont, YAlign: draw.YCenter, Handler: p.TextHandler}
	style.Font.Size = 8
	var covered []vg.Rectangle
	var legend []contender.Role
	for _, l := range all {
		at := vg.Point{X: x(l.rate), Y: y(l.p99)}
		c.DrawGlyph(draw.GlyphStyle{Color: colours[l.role], Radius: 3, Shape: draw.CircleGlyph{}}, at)
		covered = append(covered, around(at, 5, 5))
		if !slices.Contains(legend, l.role) {
			legend = append(legend, l.role)
		}
	}
	for _, l := range all {
		dot, width := vg.Point{X: x(l.rate), Y: y(l.p99)}, style.Width(l.name)*1.2
		right, left := dot.X+6+width/2, dot.X-6-width/2
		middle := vg.Point{X: right, Y: dot.Y}
		for _, place := range []vg.Point{
			middle, {X: left, Y: dot.Y}, {X: dot.X, Y: dot.Y + 9}, {X: dot.X, Y: dot.Y - 9},
			{X: right, Y: dot.Y + 8}, {X: right, Y: dot.Y - 8}, {X: left, Y: dot.Y + 8}, {X: left, Y: dot.Y - 8},
		} {
			area := around(place, width, 7)
			if area.Min.X > c.Min.X && !slices.ContainsFunc(covered, func(r vg.Rectangle) bool { return overlap(r, area) }) {
				middle = place
				break
			}
		}
		covered = append(covered, around(middle, width, 7))
		c.FillText(style, vg.Point{X: middle.X - width/2, Y: middle.Y}, l.name)
	}
	at := vg.Point{X: c.Min.X + 8, Y: c.Max.Y - 8}
	for _, role := range legend {
		c.DrawGlyph(draw.GlyphStyle{Color: colours[role], Radius: 3, Shape: draw.CircleGlyph{}}, at)
		c.FillText(style, vg.Point{X: at.X + 6, Y: at.Y}, meanings[role])
		at.X += style.Width(meanings[role])*1.2 + 24
	}
}

// around returns the rectangle of that size whose middle is at p.
func around(p vg.Point, width, height vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: p.X - width/2, Y: p.Y - height/2}, Max: vg.Point{X: p.X + width/2, Y: p.Y + height/2}}
}

// overlap reports whether two rectangles have a point in common.
func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
