package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// cost is what a lock costs one contender at each delay of the network, in milliseconds; NaN where that was not measured.
type cost struct {
	contender.Contender
	alone, contended []float64
}

// costs returns what was measured by the experiment with delays, and the delays; nothing if it was not run.
func costs(in Input) (all []cost, delays []time.Duration) {
	i := slices.IndexFunc(in.Plan.Experiments, func(e experiment.Experiment) bool { return e.Name == "delay" })
	if i < 0 {
		return nil, nil
	}
	e := &in.Plan.Experiments[i]
	cases := e.Cases(in.Plan.Depth)
	for _, k := range cases {
		if !slices.Contains(delays, k.Delay) {
			delays = append(delays, k.Delay)
		}
	}
	for _, c := range in.Plan.Contenders {
		one := cost{Contender: c}
		measured := false
		for _, k := range cases {
			ms := 1000 / measure.Median(in.Outcome.Results.Values(of(e.Name, k.Name, c.Name, "rate")))
			measured = measured || !math.IsNaN(ms)
			if k.N == 1 {
				one.alone = append(one.alone, ms)
			} else {
				one.contended = append(one.contended, ms)
			}
		}
		if measured {
			all = append(all, one)
		}
	}
	return all, delays
}

// costTable has a line for each contender and a column for each delay, alone and contended.
func costTable(all []cost, delays []time.Duration) Table {
	t := Table{Head: []string{"milliseconds for one lock"}}
	for _, who := range []string{"alone", "16 clients"} {
		for _, d := range delays {
			t.Head = append(t.Head, fmt.Sprintf("%s, %v", who, d))
		}
	}
	for _, c := range all {
		row := []string{rowName(c.Contender)}
		for _, ms := range slices.Concat(c.alone, c.contended) {
			cell := ""
			if !math.IsNaN(ms) && !math.IsInf(ms, 0) {
				cell = number(ms)
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// rowName is a contender's name at the beginning of a line of Markdown.
func rowName(c contender.Contender) string {
	if c.Role == contender.Ours {
		return "**" + c.Name + "**"
	}
	return c.Name
}

// drawCosts draws two panels with the same lines, one for each contender: on the left what a lock costs alone, on the right
// with 16 clients; a dot for each delay.
func drawCosts(all []cost, delays []time.Duration) (Plot, error) {
	const caption = "What one lock costs over a network: milliseconds for a lock and its release, by the time of a round trip"
	height := vg.Length(3.6+.55*float64(len(all))) * vg.Centimeter
	svg, err := draws(22*vg.Centimeter, height, func(c draw.Canvas) {
		half := c.Size().X * .56 // the left panel has the names as well
		left := draw.Crop(c, 0, half-c.Size().X, 0, 0)
		right := draw.Crop(c, half, 0, 0, 0)
		costPanel("one client, nobody else", all, delays, true, func(k cost) []float64 { return k.alone }).Draw(left)
		costPanel("16 clients on one name", all, delays, false, func(k cost) []float64 { return k.contended }).Draw(right)
	})
	return Plot{Name: "cost", Caption: caption, SVG: svg}, err
}

func costPanel(title string, all []cost, delays []time.Duration, names bool, of func(cost) []float64) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 11
	p.Title.Padding = 3
	p.X.Label.Text = "ms for one lock (less is better)"
	p.X.Label.TextStyle.Font.Size = 10
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = decades{}
	p.X.Min, p.X.Max = math.Inf(1), 0
	for _, c := range all {
		for _, ms := range of(c) {
			if !math.IsNaN(ms) && !math.IsInf(ms, 0) {
				p.X.Min, p.X.Max = min(p.X.Min, ms/1.3), max(p.X.Max, ms*1.3)
			}
		}
	}
	p.Y.Min, p.Y.Max = -.6, float64(len(all))+.4 // room for the legend
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	var ticks []plot.Tick
	for i, c := range all {
		tick := plot.Tick{Value: float64(len(all) - 1 - i), Label: " "}
		if names {
			tick.Label = c.Name
		}
		ticks = append(ticks, tick)
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Add(costDots{all, delays, of})
	return p
}

// costDots is a plotter.
type costDots struct {
	all    []cost
	delays []time.Duration
	of     func(cost) []float64
}

// shades go from the shortest delay to the longest.
var shades = [...]float64{.35, .65, 1}

func (d costDots) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, k := range d.all {
		at := y(float64(len(d.all) - 1 - i))
		c.StrokeLine2(draw.LineStyle{Color: color.Gray{225}, Width: .5}, c.Min.X, at, c.Max.X, at)
		for j, ms := range d.of(k) {
			if !math.IsNaN(ms) && !math.IsInf(ms, 0) {
				c.DrawGlyph(d.glyph(k.Role, j), vg.Point{X: x(ms), Y: at})
			}
		}
	}
	style := text.Style{Color: color.Gray{60}, Font: plot.DefaultFont, YAlign: draw.YCenter, Handler: p.TextHandler}
	style.Font.Size = 8
	at := vg.Point{X: c.Min.X + 4, Y: y(float64(len(d.all)) - .1)}
	for j, delay := range d.delays {
		c.DrawGlyph(d.glyph(contender.Ours, j), at)
		c.FillText(style, vg.Point{X: at.X + 6, Y: at.Y}, delay.String())
		at.X += style.Width(delay.String())*1.2 + 20
	}
}

// glyph returns the dot of a delay: the longer, the darker.
func (d costDots) glyph(role contender.Role, delay int) draw.GlyphStyle {
	shade := shades[len(shades)-len(d.delays)+delay]
	r, g, b, _ := colours[role].RGBA()
	mix := func(v uint32) uint8 { return uint8(255 - (255-float64(v>>8))*shade) }
	return draw.GlyphStyle{Color: color.RGBA{mix(r), mix(g), mix(b), 255}, Radius: 3.2, Shape: draw.CircleGlyph{}}
}

// writeCosts writes the table and the place of the plot for the head of a page.
func writeCosts(b *strings.Builder, all []cost, delays []time.Duration, caption, address string) {
	fmt.Fprintf(b, "\n![%s](%s)\n\n", caption, address)
	markdownTable(b, costTable(all, delays))
}
