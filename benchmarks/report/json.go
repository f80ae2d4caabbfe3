package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/machine"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

// data is the JSON file.
type data struct {
	Command    string            `json:"command"`
	Form       experiment.Depth  `json:"form"`
	Started    time.Time         `json:"started"`
	Seconds    float64           `json:"seconds"`
	Parts      []experiment.Part `json:"parts"`
	Machine    machine.Info      `json:"machine"`
	Servers    map[string]string `json:"servers"`
	Given      site.Given        `json:"given,omitempty"`
	Contenders []contenderData   `json:"contenders"`
	Figures    []measure.Series  `json:"figures"`
	Asked      []Answer          `json:"asked"`
	Failures   []measure.Failure `json:"failures"`
	LeftOut    []string          `json:"left_out"`
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
		Command: in.Command, Form: in.Plan.Depth,
		Started: in.Outcome.Started, Seconds: in.Outcome.Took.Seconds(), Parts: in.Outcome.Parts,
		Machine: in.Machine, Servers: in.Outcome.Versions, Given: in.Plan.Given,
		Figures: in.Outcome.Results.All(),
		Asked:   Answers(in), Failures: in.Outcome.Results.Failures(), LeftOut: in.LeftOut,
	}
	for _, c := range in.Plan.Contenders {
		d.Contenders = append(d.Contenders, contenderData{c.Name, string(c.Role), c.Setup.String(), c.Note})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// Read makes of a JSON file again what a report is made of. find knows the contenders.
func Read(r io.Reader, find func(name string) (contender.Contender, error)) (Input, error) {
	var d data
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return Input{}, fmt.Errorf("read the results: %w", err)
	}
	in := Input{
		Command: d.Command, Machine: d.Machine, LeftOut: d.LeftOut,
		Plan: experiment.Plan{Depth: d.Form, Given: d.Given},
		Outcome: &experiment.Outcome{
			Results: &measure.Results{}, Versions: d.Servers, Started: d.Started, Parts: d.Parts,
			Took: time.Duration(d.Seconds * float64(time.Second)),
		},
	}
	for _, c := range d.Contenders {
		known, err := find(c.Name)
		if err != nil {
			return Input{}, fmt.Errorf("read the results: %w", err)
		}
		known.Note = c.Note // as it was then
		in.Plan.Contenders = append(in.Plan.Contenders, known)
	}
	for _, e := range experiment.All() {
		if slices.ContainsFunc(d.Parts, func(p experiment.Part) bool { return p.Name == e.Name }) {
			in.Plan.Experiments = append(in.Plan.Experiments, e)
		}
	}
	for _, s := range d.Figures {
		for _, v := range s.Values {
			in.Outcome.Results.Add(s.Key, float64(v))
		}
	}
	for _, f := range d.Failures {
		in.Outcome.Results.Fail(f)
	}
	return in, nil
}
