package report

import (
	"bytes"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

var colours = map[contender.Role]color.Color{
	contender.Ours:    color.RGBA{0x0b, 0x6e, 0x99, 255},
	contender.Rival:   color.RGBA{0xd1, 0x6b, 0x16, 255},
	contender.Floor:   color.RGBA{0x80, 0x80, 0x80, 255},
	contender.Exhibit: color.RGBA{0xb0, 0x30, 0x60, 255},
}

// meanings are what the legend says.
var meanings = map[contender.Role]string{
	contender.Ours:    "this project",
	contender.Rival:   "other libraries",
	contender.Floor:   "bare calls",
	contender.Exhibit: "what articles warn of",
}

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
}

// plots draws the metrics of an experiment that are to be drawn, one picture for each case.
func plots(in Input, e *experiment.Experiment) []Plot {
	var all []Plot
	for _, m := range e.Metrics {
		if !m.Plot {
			continue
		}
		for _, k := range e.Cases(in.Plan.Depth) {
			if p, ok := dots(in, e, k, m); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// dot is one line of a dot plot.
type dot struct {
	name                    string
	median, least, greatest float64
	role                    contender.Role
}

// dots draws one metric of one case: a dot for the median of each contender, a line for
// the range of its repetitions.
func dots(in Input, e *experiment.Experiment, k experiment.Case, m experiment.Metric) (Plot, bool) {
	var list []dot
	for _, c := range in.Plan.Contenders {
		values := in.Outcome.Results.Values(key(e, k, c, m))
		median := measure.Median(values)
		if math.IsNaN(median) || math.IsInf(median, 0) {
			continue
		}
		least, greatest := measure.Spread(values)
		if math.IsInf(greatest, 0) || math.IsNaN(greatest) {
			greatest = median
		}
		list = append(list, dot{c.Name, median, least, greatest, c.Role})
	}
	if len(list) < 2 {
		return Plot{}, false
	}
	title := e.Title
	if k.Name != "" {
		title += ", " + k.Name
	}
	axis := m.Name
	if m.Unit != "" {
		axis += ", " + m.Unit
	}
	if m.Better != 0 {
		axis += map[int]string{1: " (more is better)", -1: " (less is better)"}[m.Better]
	}
	svg, err := drawDots(title, axis, list)
	if err != nil {
		return Plot{}, false
	}
	return Plot{Name: fileName(e.Name, k.Name, m.Name), Caption: title + ": " + axis, SVG: svg}, true
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

func fileName(parts ...string) string {
	return strings.Trim(notPlain.ReplaceAllString(strings.ToLower(strings.Join(parts, "-")), "-"), "-")
}

func drawDots(title, axis string, list []dot) ([]byte, error) {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 12
	p.Title.Padding = 3
	p.X.Label.Text = axis
	p.X.Label.TextStyle.Font.Size = 10
	d := newDotPlot(list)
	if d.log {
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = decades{}
	}
	p.X.Min, p.X.Max = d.min, d.max
	p.Y.Min, p.Y.Max = -.6, float64(len(list))-.4
	if len(d.legend) > 1 {
		p.Y.Max += .8 // room for it
	}
	var ticks []plot.Tick
	for i, l := range list {
		ticks = append(ticks, plot.Tick{Value: d.y(i), Label: l.name})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Length = 0
	p.Y.LineStyle.Width = 0
	p.Add(d)
	return render(p, 18*vg.Centimeter, vg.Length(2.9+.55*(p.Y.Max-p.Y.Min))*vg.Centimeter)
}

// dotPlot is a plotter.
type dotPlot struct {
	list     []dot
	log      bool
	min, max float64
	legend   []contender.Role // those there are
}

func newDotPlot(list []dot) *dotPlot {
	d := &dotPlot{list: list}
	least, most := math.Inf(1), 0.
	for _, l := range list {
		if !slices.Contains(d.legend, l.role) {
			d.legend = append(d.legend, l.role)
		}
		if l.median > 0 {
			least = min(least, l.median)
		}
		if l.least > 0 {
			least = min(least, l.least)
		}
		most = max(most, l.greatest, l.median)
	}
	if math.IsInf(least, 1) {
		least = 1
	}
	d.log = most/least > 20
	d.max = most * 1.15 // room for the figure
	if d.log {
		d.min = math.Pow(10, math.Floor(math.Log10(least)-.01))
		d.max = most * math.Pow(most/d.min, .15)
	}
	if d.max <= d.min {
		d.max = d.min + 1
	}
	return d
}

func (d *dotPlot) y(i int) float64 { return float64(len(d.list) - 1 - i) }

// Plot draws the lines. A zero on a logarithmic axis stands at its left end.
func (d *dotPlot) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	in := func(v float64) vg.Length { return x(min(max(v, d.min), d.max)) }
	style := text.Style{Color: color.Gray{60}, Font: plot.DefaultFont, YAlign: draw.YCenter, Handler: p.TextHandler}
	style.Font.Size = 8
	for i, l := range d.list {
		at := y(d.y(i))
		faint := draw.LineStyle{Color: color.Gray{225}, Width: .5}
		c.StrokeLine2(faint, x(d.min), at, in(l.median), at)
		c.StrokeLine2(draw.LineStyle{Color: colours[l.role], Width: 1.5}, in(l.least), at, in(l.greatest), at)
		c.DrawGlyph(draw.GlyphStyle{Color: colours[l.role], Radius: 3, Shape: draw.CircleGlyph{}}, vg.Point{X: in(l.median), Y: at})
		c.FillText(style, vg.Point{X: in(max(l.median, l.greatest)) + 6, Y: at}, number(l.median))
	}
	if len(d.legend) < 2 {
		return
	}
	at := vg.Point{X: x(d.min) + 3, Y: y(float64(len(d.list)) - .1)}
	for _, role := range d.legend {
		c.DrawGlyph(draw.GlyphStyle{Color: colours[role], Radius: 3, Shape: draw.CircleGlyph{}}, at)
		c.FillText(style, vg.Point{X: at.X + 6, Y: at.Y}, meanings[role])
		at.X += style.Width(meanings[role])*1.2 + 24
	}
}

// decades marks the powers of ten.
type decades struct{}

func (decades) Ticks(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		v := math.Pow(10, e)
		if v >= least*.999 && v <= most*1.001 {
			ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
		}
		for k := 2.; k < 10; k++ {
			if w := k * v; w >= least && w <= most {
				ticks = append(ticks, plot.Tick{Value: w})
			}
		}
	}
	return ticks
}

var fonts = regexp.MustCompile(`font-family:[^;"]*`)

// render writes a plot as SVG that names no font which a reader may not have.
func render(p *plot.Plot, w, h vg.Length) ([]byte, error) { return draws(w, h, p.Draw) }

// draws writes what draw draws as such an SVG.
func draws(w, h vg.Length, drawing func(draw.Canvas)) ([]byte, error) {
	c := vgsvg.New(w, h)
	all := draw.New(c)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	// A reader's font may be wider than the one that was reckoned with.
	drawing(draw.Crop(all, .9*vg.Centimeter, -.3*vg.Centimeter, .2*vg.Centimeter, -.3*vg.Centimeter))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	svg := fonts.ReplaceAll(b.Bytes(), []byte("font-family:Arial,Helvetica,sans-serif"))
	return slices.Clip(svg), nil
}
