package commands

// What kong does not do with arguments: negative numbers as the values of flags, and sentences for
// mistakes that are likely with prompts.

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

var negativeNumber = regexp.MustCompile(`^-\.?[0-9]`)

// joinValues joins flags with values that kong would take for flags, as in --presence-penalty -1
// and --prompt -.
func joinValues(parser *kong.Kong, args []string) []string {
	takes := flagsWithValues(parser.Model.Node, map[string]bool{})
	var joined []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		name, long := strings.CutPrefix(arg, "--")
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

// usage returns the text of a usage error.
func usage(err error) string {
	text := asTyped(err, usageWords.Replace(err.Error()))
	m := unknownFlag.FindStringSubmatch(text)
	asks := nearest(err) == "headroom run" // its arguments are a prompt
	switch {
	case m != nil && refusedFlag(m[2]) != "":
		return refusedFlag(m[2])
	case asks && m != nil && m[1] == "-":
		return text + `: put -- before a prompt that begins with -, as in: run -- "-1 + 2?"`
	case asks && strings.HasPrefix(text, "unexpected argument"):
		return text + ": put the prompt into quotes"
	}
	return text
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
			return node.FullPath()
		}
	}
	return "headroom"
}
