package experiment

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

const onePermit = "1 of 10 permits"

func permits() Experiment {
	return Experiment{
		Name:     "permits",
		Title:    "Permits",
		Question: "What does it cost if ten may hold a name at once instead of one, and do ten hold it as long as others wait?",
		Method: "A hundred clients take one of the ten permits of a name and give it back, as often as they can, and hold it for 50 ms on average meanwhile. " +
			"What is exclusive they hold for 5 ms, so that the name goes from hand to hand as often. Requests and wake-ups are counted in passes of their own, in the first repetition, while nobody holds for longer than it must.",
		Metrics: []Metric{
			{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
			{Name: "wake-ups", Better: -1, Meaning: "messages that the servers sent unasked, for one acquisition"},
			{Name: "idle", Unit: "%", Better: -1, Meaning: "of the permits that nobody held while others waited for one; one of ten that is left lying is 10 %"},
			{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquisitions a second; more than 200 are not possible"},
			{Name: "too many", Better: -1, Meaning: "times that more held the name than may"},
			{Name: "stuck", Better: -1, Meaning: "clients that were still waiting two seconds after a permit had been taken for the last time"},
		},
		Cases: func(Depth) []Case {
			return []Case{{Name: onePermit, N: 100, How: onePermit}, {Name: "exclusive", N: 100}}
		},
		Repeat: func(d Depth) int { return pick(d, 1, 1, 4) },
		InTurn: true,
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			return distributed(d, c, k) && c.Traits.Permits && (d == Full || c.Setup.Nodes <= 1)
		},
		Do: doPermits,
	}
}

func doPermits(ctx context.Context, c *Cell) error {
	clients, err := c.OpenCase(ctx)
	if err != nil {
		return err
	}
	atOnce := 1
	if c.Case.How == onePermit {
		atOnce = 10
		clients = as(contender.Kind{Permits: 1, Of: atOnce}, clients)
	}
	return c.contest(ctx, c.passOf(clients), contest{
		warm: time.Second, window: 2 * time.Second,
		atOnce: int64(atOnce), hold: time.Duration(atOnce) * 5 * time.Millisecond,
	}, c.Rep == 0)
}
