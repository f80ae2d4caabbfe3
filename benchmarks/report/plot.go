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
)

var colours = map[contender.Role]color.RGBA{
	contender.Ours:  {0x0b, 0x6e, 0x99, 255},
	contender.Rival: {0xd1, 0x6b, 0x16, 255},
}

// meanings are what the legend says.
var meanings = map[contender.Role]string{
	contender.Ours:  "this project",
	contender.Rival: "other libraries",
}

// The names of the plots.
const (
	costName  = "cost"
	ratesName = "rates"
)

// plots draws what was measured of it: the time to acquire against the rate, and what a lock costs over a network.
func plots(in Input) (all []Plot) {
	for _, draw := range []func(Input) (Plot, bool){drawRates, drawCosts} {
		if p, ok := draw(in); ok {
			all = append(all, p)
		}
	}
	return all
}

// isShown reports whether a contender is in plots and in the short table.
func isShown(c contender.Contender) bool {
	return c.Setup.Variant == contender.Usual && !c.Aside && (c.Role == contender.Ours || c.Role == contender.Rival)
}

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

func fileName(parts ...string) string {
	return strings.Trim(notPlain.ReplaceAllString(strings.ToLower(strings.Join(parts, "-")), "-"), "-")
}

// chart returns a plot without anything in it.
func chart(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 12, 10, 10
	p.Title.Padding = 3
	return p
}

// logarithmic has an axis be so.
func logarithmic(a *plot.Axis) { a.Scale, a.Tick.Marker = plot.LogScale{}, decades{} }

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

// pen draws dots and small words on a plot.
type pen struct {
	draw.Canvas
	small text.Style
}

func newPen(c draw.Canvas, p *plot.Plot) pen {
	small := text.Style{Color: color.Gray{60}, Font: plot.DefaultFont, YAlign: draw.YCenter, Handler: p.TextHandler}
	small.Font.Size = 8
	return pen{c, small}
}

func (p pen) dot(at vg.Point, c color.Color) {
	p.DrawGlyph(draw.GlyphStyle{Color: c, Radius: 3, Shape: draw.CircleGlyph{}}, at)
}

// line draws a thin line to words, which ends above or below them.
func (p pen) line(from, to vg.Point) {
	if to.Y > from.Y {
		to.Y -= 4
	} else if to.Y < from.Y {
		to.Y += 4
	}
	p.StrokeLine2(draw.LineStyle{Color: color.Gray{150}, Width: .5}, from.X, from.Y, to.X, to.Y)
}

func (p pen) write(at vg.Point, words string) { p.FillText(p.small, at, words) }

// width is how wide words are, with the room that a reader's font may need besides.
func (p pen) width(words string) vg.Length { return p.small.Width(words) * 1.2 }

// sign says what a colour means.
type sign struct {
	colour  color.Color
	meaning string
}

// legend writes what colours mean, from a point to the right.
func (p pen) legend(at vg.Point, signs []sign) {
	for _, s := range signs {
		p.dot(at, s.colour)
		p.write(vg.Point{X: at.X + 6, Y: at.Y}, s.meaning)
		at.X += p.width(s.meaning) + 24
	}
}

// signs returns the legend of the roles that there are, in that order.
func signs(roles []contender.Role) (all []sign) {
	for _, r := range roles {
		if s := (sign{colours[r], meanings[r]}); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// finite reports whether v can be drawn.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

var fonts = regexp.MustCompile(`font-family:[^;"]*`)

// render writes what drawing draws as SVG that names no font which a reader may not have.
func render(w, h vg.Length, drawing func(draw.Canvas)) ([]byte, error) {
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
	return fonts.ReplaceAll(b.Bytes(), []byte("font-family:Arial,Helvetica,sans-serif")), nil
}
