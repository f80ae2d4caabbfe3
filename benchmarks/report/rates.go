package report

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawRates draws, for 16 clients that want one name, the time in which 99 of 100 acquisitions were
// done against their rate. It returns false if fewer than two contenders have both figures.
func drawRates(in Input) (Plot, bool) {
	title := "Contended, 16 clients on one name"
	p := chart(title, "acquisitions/s (right is better)", "p99, ms (low is better)")
	logarithmic(&p.X)
	logarithmic(&p.Y)
	p.Legend.Left = true
	var all names
	for _, role := range shownRoles {
		s := dots(colours[role])
		for _, c := range in.Plan.Contenders {
			value := func(metric string) float64 {
				return in.Outcome.Results.Median(of("contended", sixteen, c.Name, metric))
			}
			at := plotter.XY{X: value("rate"), Y: value("acquire p99")}
			if c.Role == role && isShown(c) && at.X > 0 && at.Y > 0 && finite(at.X) && finite(at.Y) {
				s.XYs = append(s.XYs, at)
				all = append(all, named{c.Name, at})
			}
		}
		if len(s.XYs) > 0 {
			p.Add(s)
			p.Legend.Add(meanings[role], s)
		}
	}
	if len(all) < 2 {
		return Plot{}, false
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = p.X.Min/1.5, p.X.Max*2, p.Y.Min/1.5, p.Y.Max*2
	p.Add(all)
	svg, err := render(20*vg.Centimeter, 15*vg.Centimeter, p.Draw)
	return Plot{Name: ratesName, Caption: title + ": time to acquire (p99) against rate", SVG: svg}, err == nil
}

// named is a dot with a name.
type named struct {
	name string
	plotter.XY
}

// names is a plotter: the name of each dot where that covers nothing, and a line to it.
type names []named

func (all names) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	small := text.Style{Color: color.Gray{60}, Font: font.From(plot.DefaultFont, 8), YAlign: draw.YCenter, Handler: p.TextHandler}
	var covered []vg.Rectangle
	for _, n := range all {
		covered = append(covered, around(vg.Point{X: x(n.X), Y: y(n.Y)}, 5, 5))
	}
	for _, n := range all {
		dot, width := vg.Point{X: x(n.X), Y: y(n.Y)}, small.Width(n.name)*1.2 // the font of a reader may need more
		aside := 6 + width/2
		at := dot.Add(vg.Point{X: aside})
		for _, by := range []vg.Point{
			{X: aside}, {X: -aside}, {Y: 9}, {Y: -9},
			{X: aside, Y: 8}, {X: aside, Y: -8}, {X: -aside, Y: 8}, {X: -aside, Y: -8},
			{Y: 17}, {Y: -17}, {Y: 25}, {Y: -25},
		} {
			area := around(dot.Add(by), width, 7)
			if area.Min.X > c.Min.X && !slices.ContainsFunc(covered, func(r vg.Rectangle) bool { return overlap(r, area) }) {
				at = dot.Add(by)
				break
			}
		}
		covered = append(covered, around(at, width, 7))
		end := at.Y // of the line, above or below the name
		if at.Y != dot.Y {
			end -= vg.Length(math.Copysign(4, float64(at.Y-dot.Y)))
		}
		c.StrokeLine2(draw.LineStyle{Color: color.Gray{150}, Width: .5}, dot.X, dot.Y, min(max(dot.X, at.X-width/2), at.X+width/2), end)
		c.FillText(small, vg.Point{X: at.X - width/2, Y: at.Y}, n.name)
	}
}

// around returns the rectangle of that size whose middle is at p.
func around(p vg.Point, width, height vg.Length) vg.Rectangle {
	half := vg.Point{X: width / 2, Y: height / 2}
	return vg.Rectangle{Min: p.Sub(half), Max: p.Add(half)}
}

// overlap reports whether two rectangles have a point in common.
func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
