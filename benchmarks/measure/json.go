package measure

import (
	"encoding/json"
	"math"
)

// MarshalJSON writes the values with their median and spread.
func (s Series) MarshalJSON() ([]byte, error) {
	values := make([]number, len(s.Values))
	for i, v := range s.Values {
		values[i] = number(v)
	}
	least, greatest := Spread(s.Values)
	return json.Marshal(seriesData{s.Key, number(Median(s.Values)), number(least), number(greatest), values})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Series) UnmarshalJSON(b []byte) error {
	var d seriesData
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	s.Key, s.Values = d.Key, nil
	for _, v := range d.Values {
		s.Values = append(s.Values, float64(v))
	}
	return nil
}

type seriesData struct {
	Key
	Median number   `json:"median"`
	Least  number   `json:"least"`
	Most   number   `json:"greatest"`
	Values []number `json:"values"`
}

// number is a float64 that JSON can carry: what is infinite is the text "inf", what is
// not a number is null.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	switch v := float64(n); {
	case math.IsNaN(v):
		return []byte("null"), nil
	case math.IsInf(v, 0):
		return []byte(`"inf"`), nil
	default:
		return json.Marshal(v)
	}
}

func (n *number) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "null":
		*n = number(math.NaN())
	case `"inf"`:
		*n = number(math.Inf(1))
	default:
		return json.Unmarshal(b, (*float64)(n))
	}
	return nil
}
