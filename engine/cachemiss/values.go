package cachemiss

// Some values differ in every request although nobody edited the text: dates, times, counters, IDs.
// Such a value is the cause only if the first difference is inside it in both texts.

import "regexp"

// Names of days and months in English, the language of most agents' prompts.
const (
	days   = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:[a-z]*day)?`
	months = `(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)`
)

// dates matches common forms of dates and times.
var dates = patterns(
	// 2026-11-20, 2026-11-20T14:19:41Z
	`\b\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?Z|[+-]\d{2}:?\d{2})?)?`,
	`\b\d{1,4}[/.]\d{1,2}[/.]\d{2,4}\b`, // 11/20/2026, 20.11.2026
	`\b`+days+`\b`,
	`\b`+months+`\b\.?(?: \d{1,2}(?:st|nd|rd|th)?\b)?(?:,? \d{4}\b)?`, // November 20, 2026
	`\b\d{1,2}(?:st|nd|rd|th)?[ -]`+months+`\b\.?(?:,?[ -]\d{4}\b)?`,  // 20 Nov 2026
	`\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\b)?`,    // 14:19:41.250, 2:19 PM
	// Unix time from 2017 to 2039, in s, ms, µs or ns
	`\b(?:1[5-9]|2[01])\d{8}(?:\d{3}|\d{6}|\d{9})?\b(?:\.\d+)?`,
	`\b\d{8}[T-]\d{6}Z?\b`, // 20261120T141941Z
	`\b\d+(?:\.\d+)? (?:second|minute|hour|day|week)s?(?: ago)?\b`, // 3 minutes ago
	// the rest of a date whose month is in another language
	`\b\d{1,2}(?:st|nd|rd|th)?,? \d{4}\b`,
)

// ids matches words with a digit: counters, hexadecimal IDs, UUIDs and versions.
var ids = patterns(`[0-9A-Za-z_.-]*[0-9][0-9A-Za-z_.-]*`)

func patterns(list ...string) (compiled []*regexp.Regexp) {
	for _, p := range list {
		compiled = append(compiled, regexp.MustCompile(p))
	}
	return compiled
}

// differsIn reports whether the first difference of a and b, where a[at:] and b[at:] begin, is
// within a value of the same kind in both.
func differsIn(kinds []*regexp.Regexp, a, b string, at int) bool {
	const around = 96
	from := wordStart(a, max(0, at-around), around)
	a, b, at = a[from:min(len(a), at+around)], b[from:min(len(b), at+around)], at-from
	for _, kind := range kinds {
		x, y := spanAt(kind, a, at), spanAt(kind, b, at)
		if x != nil && y != nil && (at < x[1] || at < y[1]) {
			return true
		}
	}
	return false
}

// spanAt returns the match s[from:to] of kind with from <= at <= to, or nil if there is none.
func spanAt(kind *regexp.Regexp, s string, at int) []int {
	for _, span := range kind.FindAllStringIndex(s, -1) {
		if span[0] <= at && at <= span[1] {
			return span
		}
	}
	return nil
}
