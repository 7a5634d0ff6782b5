// Schemas measures what structured output can do, by two public suites:
//
//	make schemas                         both suites, and a comparison with llguidance
//	go run ./build/schemas               JSON-Schema-Test-Suite, then JSONSchemaBench
//	go run ./build/schemas -update       the same, and updates the ratchet
//	go run ./build/schemas -case NAME    why an instance of a schema is refused
//	go run ./build/schemas -speed FILE   the time of masks, with the vocabulary in FILE
//
// The suites are fetched to bin/schemas. A verdict is right, or the schema is refused, or a grammar
// takes an instance that is not valid (wrong-accept), or it refuses a valid one (wrong-refuse).
// ratchet.json lists the cases of the test suite that are not right. A case may only leave it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"headroom/engine/grammar"
	"headroom/engine/grammar/jsonschema"
)

const ratchetFile = "build/schemas/ratchet.json"

func main() {
	update := flag.Bool("update", false, "write the ratchet")
	flag.StringVar(&testSuite.folder, "suite", testSuite.folder,
		"git `FOLDER` of JSON-Schema-Test-Suite")
	flag.StringVar(&benchSuite.folder, "bench", benchSuite.folder,
		"git `FOLDER` of JSONSchemaBench")
	count := flag.Int("n", 2000, "schemas of JSONSchemaBench; 0: all")
	out := flag.String("out", "", "write what became of each schema of JSONSchemaBench to a `FILE`")
	schemas := flag.String("schemas", "", "write the chosen schemas of JSONSchemaBench to a `FILE`")
	only := flag.String("only", "", "print the cases of the suite that contain this `TEXT`")
	one := flag.String("case", "", "explain the schema of JSONSchemaBench with this `NAME`")
	vocabulary := flag.String("speed", "", "measure masks with the vocabulary in this `FILE`")
	given := flag.String("cases", "", "measure those that -speed has written with -out to a `FILE`")
	set := flag.String("set", "Github_medium", "the set of JSONSchemaBench that -speed measures")
	flag.Parse()
	if *vocabulary != "" {
		if err := runSpeed(*vocabulary, *given, *set, *count, *out); err != nil {
			fmt.Fprintln(os.Stderr, "schemas:", err)
			os.Exit(1)
		}
		return
	}
	if *one != "" {
		if err := explain(*one); err != nil {
			fmt.Fprintln(os.Stderr, "schemas:", err)
			os.Exit(1)
		}
		return
	}
	err := errors.Join(runSuite(*update, *only), runBench(*count, *out, *schemas))
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

// compile builds the grammar of a schema. refused is the keyword for which it is refused.
func compile(schema []byte, o jsonschema.Options) (g *grammar.Grammar, refused string, err error) {
	b := grammar.NewBuilder()
	n, err := jsonschema.Build(b, schema, o)
	if err == nil {
		g, err = b.Compile(n)
	}
	var unsupported *jsonschema.Unsupported
	var invalid *jsonschema.Invalid
	switch {
	case err == nil:
		return g, "", nil
	case errors.As(err, &unsupported):
		return nil, unsupported.Keyword, err
	case errors.As(err, &invalid):
		return nil, "invalid", err
	}
	return nil, "grammar", err
}

type testGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// Verdicts.
const (
	right       = "right"
	refused     = "refused"
	wrongAccept = "wrong-accept"
	wrongRefuse = "wrong-refuse"
)

// verdicts counts by verdict.
type verdicts map[string]int

// suiteVerdicts returns the verdict of each case by file, group and test, and the keywords for
// which groups are refused.
func suiteVerdicts(files []file) (cases map[string]string, keywords map[string]int, err error) {
	cases, keywords = map[string]string{}, map[string]int{}
	for _, f := range files {
		var groups []testGroup
		if err := json.Unmarshal(f.data, &groups); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.path, err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(f.path, "tests/draft2020-12/"), ".json")
		// By default format is an annotation. The tests of optional/format want it enforced.
		o := jsonschema.Options{AnnotateFormats: !strings.HasPrefix(name, "optional/format")}
		for _, group := range groups {
			schema, err := decode(group.Schema)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", f.path, err)
			}
			order := ordersOf(schema)
			g, keyword, err := compile(group.Schema, o)
			isNothing := err != nil && strings.Contains(err.Error(), "no value is valid")
			if err != nil && !isNothing {
				keywords[keyword]++
			}
			for _, test := range group.Tests {
				verdict := right
				data, err := decode(test.Data)
				switch {
				case err != nil:
					return nil, nil, fmt.Errorf("%s: %w", f.path, err)
				case isNothing && test.Valid:
					verdict = wrongRefuse
				case isNothing:
				case g == nil:
					verdict = refused
				default:
					if ok, _ := takes(g, order, data); ok != test.Valid {
						verdict = map[bool]string{true: wrongAccept, false: wrongRefuse}[ok]
					}
				}
				cases[name+" | "+group.Description+" | "+test.Description] = verdict
			}
		}
	}
	return cases, keywords, nil
}

func runSuite(update bool, only string) error {
	if err := testSuite.fetch(); err != nil {
		return err
	}
	files, _, err := testSuite.files("tests/draft2020-12")
	if err != nil {
		return err
	}
	cases, keywords, err := suiteVerdicts(files)
	if err != nil {
		return err
	}
	byFile := map[string]verdicts{}
	total, optional := verdicts{}, verdicts{}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		file, _, _ := strings.Cut(name, " | ")
		if byFile[file] == nil {
			byFile[file] = verdicts{}
		}
		byFile[file][cases[name]]++
		if strings.HasPrefix(file, "optional/") {
			optional[cases[name]]++
		} else {
			total[cases[name]]++
		}
		if only != "" && cases[name] != right && strings.Contains(name+cases[name], only) {
			fmt.Println(cases[name], "|", name)
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "JSON-Schema-Test-Suite\tright\trefused\twrong-accept\twrong-refuse\t")
	row := func(name string, v verdicts) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t\n", name, v[right], v[refused], v[wrongAccept],
			v[wrongRefuse])
	}
	for _, name := range slices.Sorted(maps.Keys(byFile)) {
		row(name, byFile[name])
	}
	row("mandatory", total)
	row("optional", optional)
	w.Flush()
	fmt.Println("groups refused, by keyword:", counts(keywords))
	fmt.Println()
	return ratchet(cases, update)
}

// counts writes counts, the largest first.
func counts(n map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		if n[a] != n[b] {
			return n[b] - n[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = fmt.Sprintf("%s %d", key, n[key])
	}
	return strings.Join(parts, ", ")
}

// ratchet compares with the stored cases that are not right.
func ratchet(cases map[string]string, update bool) error {
	now := map[string]string{}
	for name, verdict := range cases {
		if verdict != right {
			now[name] = verdict
		}
	}
	if update {
		data, err := json.MarshalIndent(now, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(ratchetFile, append(data, '\n'), 0o644)
	}
	data, err := os.ReadFile(ratchetFile)
	if err != nil {
		return err
	}
	var before map[string]string
	if err := json.Unmarshal(data, &before); err != nil {
		return fmt.Errorf("%s: %w", ratchetFile, err)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch was, ok := before[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("was right and is now %s: %s", now[name], name))
		case was == refused && now[name] != refused:
			errs = append(errs, fmt.Errorf("was refused and is now %s: %s", now[name], name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now[name] != before[name] && now[name] != wrongAccept && now[name] != wrongRefuse {
			fmt.Println("better than the ratchet says, update it:", name)
			break
		}
	}
	return errors.Join(errs...)
}
