//go:build unix

package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// flag is a flag of the command line.
type flag struct {
	long  string
	short string // a letter, or ""
	value string // what the help calls its value; "" if it has none
	help  string
	set   func(value string) error
}

// on returns the set of a flag without a value.
func on(to *bool) func(string) error {
	return func(string) error { *to = true; return nil }
}

// text returns the set of a flag whose value is any text.
func text(to *string) func(string) error {
	return func(value string) error { *to = value; return nil }
}

// number returns the set of a flag whose value is a number.
func number[T int | int64](to *T) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || int64(T(n)) != n {
			return errors.New("want a number")
		}
		*to = T(n)
		return nil
	}
}

// duration returns the set of a flag whose value is a time: 10 and 0.5 are seconds, or 10s, 1m30s.
func duration(to **time.Duration) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		if seconds, notSeconds := strconv.ParseFloat(value, 64); notSeconds == nil && seconds < 1e9 {
			d, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if err != nil || d < 0 {
			return errors.New("want seconds, or a time such as 1m30s")
		}
		*to = &d
		return nil
	}
}

// permits returns the set of a flag whose value is k/n.
func permits(k, n *int) func(string) error {
	return func(value string) error {
		before, after, ok := strings.Cut(value, "/")
		err1, err2 := number(k)(before), number(n)(after)
		if !ok || err1 != nil || err2 != nil || *n < 1 {
			return errors.New("want k/n such as 1/3")
		}
		return nil
	}
}

// parseFlags sets the flags that stand in args and returns the other arguments. Flags stand anywhere ahead of --,
// as --long=value, --long value, -x value, -xvalue, and those without values also as -xyz.
func parseFlags(flags []flag, args []string) (others []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return append(others, args...), nil
		case strings.HasPrefix(arg, "--"):
			name, value, joined := strings.Cut(arg[2:], "=")
			args, err = setFlag(flags, "--"+name, value, joined, args)
		case len(arg) > 1 && arg[0] == '-':
			args, err = setShort(flags, arg[1:], args)
		default:
			others = append(others, arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return others, nil
}

// parseLeading sets the flags that stand ahead of the first other argument; it returns the rest.
func parseLeading(flags []flag, args []string) (rest []string, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && err == nil {
		name, value, joined := strings.Cut(args[0], "=")
		args, err = setFlag(flags, name, value, joined, args[1:])
	}
	return args, err
}

// setShort sets the flags of the letters; it returns the arguments that are left.
func setShort(flags []flag, letters string, args []string) (left []string, err error) {
	for ; letters != "" && err == nil; letters = letters[1:] {
		name := "-" + letters[:1]
		if f := find(flags, name); f != nil && f.value != "" {
			return setFlag(flags, name, letters[1:], len(letters) > 1, args)
		}
		args, err = setFlag(flags, name, "", false, args)
	}
	return args, err
}

// setFlag sets a flag to the value that is joined to its name or, if it has none, that is next in args; it returns
// the arguments that are left.
func setFlag(flags []flag, name, value string, joined bool, args []string) (left []string, err error) {
	f := find(flags, name)
	switch {
	case f == nil:
		return nil, fmt.Errorf("unknown flag %s", name)
	case f.value == "" && joined:
		return nil, fmt.Errorf("%s takes no value", name)
	case f.value != "" && !joined && len(args) == 0:
		return nil, fmt.Errorf("%s wants a value", name)
	case f.value != "" && !joined:
		value, args = args[0], args[1:]
	}
	if err := f.set(value); err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, value, err)
	}
	return args, nil
}

// find returns the flag of that name, as it is written, or nil.
func find(flags []flag, name string) *flag {
	for i := range flags {
		if f := &flags[i]; name == "--"+f.long || f.short != "" && name == "-"+f.short {
			return f
		}
	}
	return nil
}

// writeFlags writes what flags there are.
func writeFlags(w io.Writer, flags []flag) {
	rows := make([][]string, len(flags))
	for n, f := range flags {
		name := "    --" + f.long
		if f.short != "" {
			name = "-" + f.short + ", --" + f.long
		}
		if f.value != "" {
			name += " " + f.value
		}
		rows[n] = []string{"  " + name, f.help}
	}
	table(w, rows...)
}
