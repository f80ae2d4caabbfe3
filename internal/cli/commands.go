//go:build unix

package cli

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// command is what this program can be told to do.
type command interface {
	flags() []flag
	// arguments takes what is not a flag. The error says what is missing or too much.
	arguments(args []string) error
	run(*invocation) error
}

// entry is a command as the help shows it.
type entry struct {
	name, arguments, help string
	new                   func() command
}

var entries = []entry{
	{"run", "NAME -- COMMAND [ARGUMENT...]", "Run a command while holding a name.", newRun},
	{"lead", "NAME -- COMMAND [ARGUMENT...]", "Run a command while leading; campaign again after a loss.", newLead},
	{"list", "[PREFIX]", "List the names that are held or waited for.", func() command { return &listCommand{} }},
	{"inspect", "NAME", "Show who holds a name and who waits for it.", func() command { return &inspectCommand{} }},
	{"watch", "NAME", "Show who holds a name and who waits for it, live.", newWatch},
	{"break", "NAME --token T", "Take a name from the holder that inspect has shown.", func() command { return &breakCommand{} }},
	{"doctor", "", "Say whether the servers can keep the promises.", func() command { return &doctorCommand{} }},
}

// find returns the entry of a command, or nil.
func findEntry(name string) *entry {
	for n := range entries {
		if entries[n].name == name {
			return &entries[n]
		}
	}
	return nil
}

// flags are those of every command.
func (i *invocation) flags(help *bool) []flag {
	return []flag{
		{"url", "", "URL", "where the locks are, such as redis://host ($LOCKER_URL; without it in a folder of yours on this machine)", text(&i.url)},
		{"json", "", "", "write results and errors as JSON", on(&i.json)},
		{"help", "h", "", "show this help", on(help)},
	}
}

// parse understands a command line; it returns the command, or nil if help was asked for, which it has written then.
func (i *invocation) parse(args []string) (command, error) {
	help, version := false, false
	common := i.flags(&help)
	leading := append(common, flag{"version", "", "", "show the version", on(&version)})
	args, err := parseLeading(leading, args)
	switch {
	case err != nil:
		return nil, usage("%v: see \"locker --help\"", err)
	case version:
		fmt.Fprintln(i.out, buildVersion())
		return nil, nil
	case help:
		writeHelp(i.out, leading)
		return nil, nil
	case len(args) == 0:
		return nil, usage("give a command: see \"locker --help\"")
	}
	e := findEntry(args[0])
	if e == nil {
		return nil, usage("unknown command %q: see \"locker --help\"", args[0])
	}
	chosen := e.new()
	flags := append(chosen.flags(), common...)
	args, err = parseFlags(flags, args[1:])
	switch {
	case help:
		e.writeHelp(i.out, flags)
		return nil, nil
	case err == nil:
		err = chosen.arguments(args)
	}
	if err != nil {
		return nil, usage("%v: see \"locker %s --help\"", err, e.name)
	}
	return chosen, nil
}

// oneName is the argument of a command that concerns one name.
type oneName struct{ name string }

func (n *oneName) arguments(args []string) error {
	switch len(args) {
	case 0:
		return errors.New("give a name")
	case 1:
		n.name = args[0]
		return nil
	}
	return fmt.Errorf("unexpected argument %q", args[1])
}

// writeHelp writes what this program can be told to do.
func writeHelp(w io.Writer, flags []flag) {
	fmt.Fprint(w, "Usage: locker COMMAND [FLAG...] ...\n\nNamed locks for the command line.\n\n")
	rows := make([][]string, len(entries))
	for n, e := range entries {
		rows[n] = []string{"  " + e.name, e.help}
	}
	table(w, rows...)
	fmt.Fprintln(w)
	writeFlags(w, flags)
	fmt.Fprint(w, `
Exit status: that of the command that was run (128+n if signal n ended it),
  75 not acquired, 76 the lock was lost and the command stopped, 69 no answer from the servers,
  64 wrong usage, 126 or 127 the command cannot be run, 1 break or doctor says no
`)
}

// writeHelp writes what the command can be told.
func (e *entry) writeHelp(w io.Writer, flags []flag) {
	usage := strings.TrimSpace(fmt.Sprintf("locker %s [FLAG...] %s", e.name, e.arguments))
	fmt.Fprintf(w, "Usage: %s\n\n%s\n\n", usage, e.help)
	writeFlags(w, flags)
}

// buildVersion returns the version that this program was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
