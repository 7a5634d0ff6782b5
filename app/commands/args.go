package commands

// What kong does not do with arguments: negative numbers as the values of flags, and sentences for
// mistakes that are likely with prompts.

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

var negativeNumber = regexp.MustCompile(`^-\.?[0-9]`)

// joinValues joins flags with values that kong would take for flags, as in --presence-penalty -1
// and --prompt -, or for arguments, as in --verbose True.
func joinValues(parser *kong.Kong, args []string) []string {
	takes := flagsWithValues(parser.Model.Node, map[string]bool{})
	var joined []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		name, long := strings.CutPrefix(arg, "--")
		// mlx-lm writes the value of --verbose as a word of its own.
		if arg == "--verbose" && i+1 < len(args) && (args[i+1] == "True" || args[i+1] == "False") {
			i++
			joined = append(joined, arg+"="+strings.ToLower(args[i]))
			continue
		}
		if long && i+1 < len(args) && takes[name] && (negativeNumber.MatchString(args[i+1]) ||
			name == "prompt" && args[i+1] == "-") {
			i++
			arg += "=" + args[i]
		}
		joined = append(joined, arg)
	}
	return joined
}

// flagsWithValues adds the names of all flags that take a value to a set, and returns it.
func flagsWithValues(n *kong.Node, names map[string]bool) map[string]bool {
	for _, f := range n.Flags {
		if !f.IsBool() {
			names[f.Name] = true
			for _, alias := range f.Aliases {
				names[alias] = true
			}
		}
	}
	for _, child := range n.Children {
		flagsWithValues(child, names)
	}
	return names
}

// usageWords replace words of kong's usage errors. The empty choice is the default of a flag, and
// kong lists it with those that a person may give.
var usageWords = strings.NewReplacer(`must be one of "",`, "must be one of ",
	"expected a valid 64 bit int but got", "expected a whole number, got",
	"expected int value but got", "expected a whole number, got",
	"expected a float but got", "expected a number, got", " (short flag)", "", " (string)", "")

// otherNames matches the other names of a command, which kong writes behind its name.
var otherNames = regexp.MustCompile(` \([^)]*\)`)

// noFile matches kong's error of a flag whose file does not exist.
var noFile = regexp.MustCompile(`stat (.+): no such file or directory`)

// usage returns the text of a usage error.
func usage(err error) string {
	text := asTyped(err, usageWords.Replace(err.Error()))
	text = noFile.ReplaceAllString(text, "there is no file $1")
	m := unknownFlag.FindStringSubmatch(text)
	if text := otherProgram(err); text != "" {
		return text
	}
	asks := nearest(err) == "headroom run" // its arguments are a prompt
	var flag, own string
	if m != nil {
		flag, own = calledHere(err, m[2])
	}
	switch {
	case m != nil && refusedFlag(m[2]) != "":
		return refusedFlag(m[2])
	case m != nil && own != "":
		return fmt.Sprintf("unknown flag %s%s: in Headroom it is %s", m[1], flag, own)
	case asks && m != nil && m[1] == "-":
		return text + `: put -- before a prompt that begins with -, as in: run -- "-1 + 2?"`
	case asks && strings.HasPrefix(text, "unexpected argument"):
		return text + ": put the prompt into quotes"
	}
	return text
}

// calledHere returns a flag of another program as the user has typed it, and what it is called in
// the command that the arguments name; "": the command has no such flag.
func calledHere(err error, name string) (flag, own string) {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || wrong.Context == nil || wrong.Context.Selected() == nil {
		return name, ""
	}
	flag = name
	for _, arg := range wrong.Context.Args {
		// kong takes -ngl for -n -g -l, and names the first that it does not have.
		whole, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) == 1 && (strings.HasPrefix(arg, "-"+name) || strings.HasPrefix(arg, "-") &&
			ownFlags[whole] != "" && strings.Contains(whole, name)) {
			flag = whole
			break
		}
	}
	own = ownFlags[flag]
	if own == "" || !strings.HasPrefix(own, "--") && nearest(err) == "headroom run" {
		return flag, own
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(own, "--"), " ")
	for _, f := range wrong.Context.Selected().Flags {
		if f.Name == name || slices.Contains(f.Aliases, name) {
			return flag, own
		}
	}
	return flag, ""
}

// asTyped names a flag as the user has written it, which may be an alias, such as --temp.
func asTyped(err error, text string) string {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || wrong.Context == nil || wrong.Context.Selected() == nil {
		return text
	}
	for _, f := range wrong.Context.Selected().Flags {
		if !strings.Contains(text, "--"+f.Name) {
			continue
		}
		for _, arg := range wrong.Context.Args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if slices.Contains(f.Aliases, name) && strings.HasPrefix(arg, "--") {
				return strings.Replace(text, "--"+f.Name, "--"+name, 1)
			}
		}
	}
	return text
}

// nearest returns the command that the arguments name, as far as they do: "headroom cache move".
func nearest(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		if node := wrong.Context.Selected(); node != nil {
			return otherNames.ReplaceAllString(node.FullPath(), "")
		}
	}
	return "headroom"
}

// onceDir is the path of a flag that may be given once. Of other flags, the last one counts.
type onceDir string

// Decode implements kong.MapperValue.
func (d *onceDir) Decode(c *kong.DecodeContext) error {
	var path string
	if err := c.Scan.PopValueInto("dir", &path); err != nil {
		return err
	}
	if *d != "" {
		return errors.New("given several times, expected once: a model runs with one adapter at " +
			"a time, and requests may name others as MODEL+ADAPTER")
	}
	*d = onceDir(kong.ExpandPath(path))
	return nil
}

// argumentFlag is a flag that stands for an argument, as in mlx-lm's programs. Without the argument
// and the flag, byDefault is meant; if that is "", one of them is required.
type argumentFlag struct{ argument, flag, value, byDefault string }

// argumentsOf returns the arguments in their order. Those that flags give take their places, and
// the others fill the places that are left.
func argumentsOf(args []string, flags []argumentFlag) ([]string, error) {
	all, missing := make([]string, len(flags)), []string(nil)
	for i, f := range flags {
		if all[i] = f.value; f.value == "" && len(args) > 0 {
			all[i], args = args[0], args[1:]
		}
		if all[i] == "" {
			all[i] = f.byDefault
		}
		if all[i] == "" {
			missing = append(missing, "<"+f.argument+">")
		}
	}
	for _, arg := range args {
		if arg != "" {
			return nil, fmt.Errorf("%q is one argument too many, beside what the flags name", arg)
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("expected %s", strings.Join(missing, " "))
	}
	return all, nil
}
