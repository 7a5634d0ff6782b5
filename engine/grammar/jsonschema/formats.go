package jsonschema

// Formats, as patterns. Each stands for the whole text. What a format allows beyond its pattern is
// not generated: a leap second, a host name in Punycode.

import (
	"strconv"
	"strings"

	"headroom/engine/grammar/regular"
)

// Parts of patterns, by name in formatPatterns.
var formatParts = strings.NewReplacer(
	"<date>", `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)`+
		`|02-(?:0[1-9]|1\d|2[0-8]))|(?:\d\d(?:0[48]|[2468][048]|[13579][26])`+
		`|(?:[02468][048]|[13579][26])00)-02-29)`,
	"<time>", `(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+\-](?:[01]\d|2[0-3]):[0-5]\d)`,
	"<label>", `[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?`,
	"<byte>", `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`,
	"<h16>", `[0-9A-Fa-f]{1,4}`,
	"<hex>", `%[0-9A-Fa-f]{2}`,
	"<atom>", "[A-Za-z0-9!#$%&'*+\\-/=?^_`{|}~]+",
	"<unreserved>", `A-Za-z0-9\-._~`,
	"<sub>", `!$&'()*+,;=`,
	"<other>", `\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}`+
		`\u{30000}-\u{3FFFD}\u{E1000}-\u{EFFFD}`,
	"<pointer>", `(?:/(?:[^/~]|~[01])*)*`,
)

// The parts of ipv6, uri and their relatives need others.
var ipv6 = `(?:(?:<h16>:){7}<h16>` +
	`|(?:<h16>:){6}<ipv4>` +
	`|::(?:<h16>:){0,5}<ipv4>|(?:<h16>:){1}(?:(?::<h16>){0,4}:<ipv4>)` +
	`|(?:<h16>:){2}(?:(?::<h16>){0,3}:<ipv4>)|(?:<h16>:){3}(?:(?::<h16>){0,2}:<ipv4>)` +
	`|(?:<h16>:){4}(?:(?::<h16>){0,1}:<ipv4>)|(?:<h16>:){5}:<ipv4>` +
	`|::(?:(?:<h16>:){0,6}<h16>)?|(?:<h16>:){1}(?::<h16>){1,6}|(?:<h16>:){2}(?::<h16>){1,5}` +
	`|(?:<h16>:){3}(?::<h16>){1,4}|(?:<h16>:){4}(?::<h16>){1,3}|(?:<h16>:){5}(?::<h16>){1,2}` +
	`|(?:<h16>:){6}:<h16>|(?:<h16>:){1,7}:)`

// uri returns the patterns of a URI and of a reference. more are characters allowed beside those of
// RFC 3986, for an IRI.
func uri(more string) (absolute, reference string) {
	one := `(?:[<unreserved><sub>:@` + more + `]|<hex>)`
	first := `(?:[<unreserved><sub>@` + more + `]|<hex>)` // no colon
	host := `(?:\[` + ipv6 + `\]|\[[vV][0-9A-Fa-f]+\.[<unreserved><sub>:]+\]` +
		`|(?:[<unreserved><sub>` + more + `]|<hex>)*)`
	authority := `(?:(?:[<unreserved><sub>:` + more + `]|<hex>)*@)?` + host + `(?::\d*)?`
	path := `//` + authority + `(?:/` + one + `*)*`
	private := ""
	if more != "" {
		private = `|[\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}]`
	}
	end := `(?:\?(?:` + one + private + `|[/?])*)?(?:#(?:` + one + `|[/?])*)?`
	absolute = `[A-Za-z][A-Za-z0-9+.\-]*:(?:` + path + `|/(?:` + one + `+(?:/` + one + `*)*)?|` + one +
		`+(?:/` + one + `*)*|)` + end
	reference = `(?:` + absolute + `|(?:` + path + `|/(?:` + one + `+(?:/` + one + `*)*)?|` + first +
		`+(?:/` + one + `*)*|)` + end + `)`
	return absolute, reference
}

// The lengths of a host name, and of an address of mail and what stands before its @.
const (
	maxHostname = 253
	maxMail     = 254
	maxLocal    = 64
)

var formatPatterns = formatTable()

func formatTable() map[string]string {
	m := map[string]string{
		"date":                  `<date>`,
		"time":                  `<time>`,
		"date-time":             `<date>[Tt]<time>`,
		"duration":              durationPattern(),
		"hostname":              `<label>(?:\.<label>)*`,
		"ipv4":                  `<ipv4>`,
		"ipv6":                  ipv6,
		"uuid":                  `[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}`,
		"json-pointer":          `<pointer>`,
		"relative-json-pointer": `(?:0|[1-9]\d*)(?:#|<pointer>)`,
	}
	m["uri"], m["uri-reference"] = uri("")
	m["iri"], m["iri-reference"] = uri("<other>")
	for name, pattern := range m {
		m[name] = expanded(pattern)
	}
	return m
}

// expanded returns a pattern with its parts in place of their names.
func expanded(pattern string) string {
	return formatParts.Replace(strings.ReplaceAll(pattern, "<ipv4>", `(?:<byte>\.){3}<byte>`))
}

// The parts of the Mailbox of RFC 5321: what stands before the @, and an address in place of a host
// name after it.
var (
	mailLocal   = `<atom>(?:\.<atom>)*|"(?:[ !#-\[\]-~]|\\[ -~])*"`
	mailAddress = `\[(?:<ipv4>|IPv6:` + ipv6 + `)\]`
)

// durationPattern returns the pattern of RFC 3339's appendix A: units in their order, none left out
// between two others.
func durationPattern() string {
	date := `(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)`
	time := `T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`
	return `P(?:` + date + `(?:` + time + `)?|` + time + `|\d+W)`
}

// unenforced are the formats of JSON Schema and OpenAPI that no grammar enforces. Those of OpenAPI
// say how a program should store a value.
var unenforced = words("idn-hostname idn-email regex uri-template")

var openAPIFormats = words("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float double " +
	"decimal password byte binary")

// format returns the strings of a format.
func (c *compiler) format(v *value, name string) regular.Expr {
	if e, ok := c.formats[name]; ok {
		return e
	}
	pattern, ok := formatPatterns[name]
	switch {
	case ok:
	case name == "email":
		e := c.mail(v)
		c.formats[name] = e
		return e
	case unenforced[name]:
		unsupported(v, "format", "the format "+strconv.Quote(name)+" cannot be enforced")
	case c.o.Strict && !openAPIFormats[name]:
		unsupported(v, "format", "the format "+strconv.Quote(name)+" is not known")
	default:
		return c.space.Repeat(c.anyCharacter, 0, regular.Unlimited)
	}
	e := c.whole(pattern)
	if name == "hostname" {
		// Labels with -- in the third place are for names in Punycode, of which few are valid.
		reserved, err := regular.ParsePattern(`(?:^|\.)..--`)
		if err != nil {
			panic(err)
		}
		encoded, err := reserved.Search(c.space, c.spellings)
		if err != nil {
			panic(err)
		}
		e = c.space.And(e, c.space.Repeat(c.anyCharacter, 0, maxHostname),
			c.space.Not(encoded))
	}
	c.formats[name] = e
	return e
}

// whole returns the strings that a pattern of this file matches.
func (c *compiler) whole(pattern string) regular.Expr {
	c.spend(len(pattern) / 8)
	parsed, err := regular.ParsePattern(pattern)
	e := regular.None
	if err == nil {
		e, err = parsed.Whole(c.space, c.spellings)
	}
	if err != nil {
		panic(err) // a fault of the table
	}
	return e
}

// mail returns the addresses of mail.
func (c *compiler) mail(v *value) regular.Expr {
	local := c.space.And(c.whole(expanded(mailLocal)), c.space.Repeat(c.anyCharacter, 0, maxLocal))
	host := c.space.Or(c.format(v, "hostname"), c.whole(expanded(mailAddress)))
	return c.space.And(c.space.Concat(local, c.space.Text("@"), host),
		c.space.Repeat(c.anyCharacter, 0, maxMail))
}
