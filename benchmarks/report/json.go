package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/machine"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// data is the JSON file.
type data struct {
	Command    string              `json:"command"`
	Form       string              `json:"form"`
	Started    time.Time           `json:"started"`
	Seconds    float64             `json:"seconds"`
	Parts      []experiment.Part   `json:"parts"`
	Machine    machine.Info        `json:"machine"`
	Servers    map[string]string   `json:"servers"`
	Contenders []contenderData     `json:"contenders"`
	Figures    []measure.Series    `json:"figures"`
	Latencies  []measure.Latencies `json:"latencies"`
	Asked      []Answer            `json:"asked"`
	Failures   []measure.Failure   `json:"failures"`
	LeftOut    []string            `json:"left_out"`
}

type contenderData struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Setup string `json:"setup"`
	Note  string `json:"note"`
}

// JSON writes every value that was measured.
func JSON(w io.Writer, in Input) error {
	d := data{
		Command: in.Command, Form: in.Plan.Depth.String(),
		Started: in.Outcome.Started, Seconds: in.Outcome.Took.Seconds(), Parts: in.Outcome.Parts,
		Machine: in.Machine, Servers: in.Outcome.Versions,
		Figures: in.Outcome.Results.All(), Latencies: in.Outcome.Results.Histograms(),
		Asked: Answers(in.Outcome.Results), Failures: in.Outcome.Results.Failures(), LeftOut: in.LeftOut,
	}
	for _, c := range in.Plan.Contenders {
		d.Contenders = append(d.Contenders, contenderData{c.Name, string(c.Role), c.Setup.String(), c.Note})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}
