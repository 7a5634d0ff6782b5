package main

// JSONSchemaBench: schemas from practice with valid and invalid instances.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"headroom/engine/grammar/jsonschema"
)

type benchCase struct {
	Schema json.RawMessage
	Tests  []struct {
		Description string
		Valid       bool
		Data        json.RawMessage
	}
}

// benchSet returns the set to which a file belongs.
func benchSet(name string) string {
	if set, _, ok := strings.Cut(name, "---"); ok {
		return set
	}
	set, _, _ := strings.Cut(name, "_")
	return set
}

// every returns n of the files, evenly spaced. They are sorted, so each set has its share.
func every(files []file, n int) []file {
	if n <= 0 || n >= len(files) {
		return files
	}
	out := make([]file, n)
	for i := range out {
		out[i] = files[i*len(files)/n]
	}
	return out
}

// outcome is what became of one schema.
type outcome struct {
	Name    string   `json:"name"`
	Taken   bool     `json:"taken"`
	Keyword string   `json:"keyword,omitempty"`
	Error   string   `json:"error,omitempty"`
	Wrong   []string `json:"wrong,omitempty"` // verdicts with the number of the instance
	Micros  int64    `json:"micros"`          // to compile the schema
}

type benchRow struct {
	schemas, taken              int
	right, wrongTaken, wrongNot int
}

func runBench(n int, out, schemas string) error {
	if err := benchSuite.fetch(); err != nil {
		return err
	}
	files, missing, err := benchSuite.files("maskbench/data")
	if err != nil {
		return err
	}
	files = every(files, n)
	if schemas != "" {
		if err := writeSchemas(schemas, files); err != nil {
			return err
		}
	}
	rows, keywords, slow := map[string]*benchRow{}, map[string]int{}, 0
	outcomes := make([]outcome, 0, len(files))
	for _, f := range files {
		name := caseName(f)
		row := rows[benchSet(name)]
		if row == nil {
			row = &benchRow{}
			rows[benchSet(name)] = row
		}
		o, err := benchOne(name, f.data, row)
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		if !o.Taken {
			keywords[o.Keyword]++
		}
		if o.Micros > 50_000 {
			slow++
		}
		outcomes = append(outcomes, o)
	}
	printBench(rows)
	fmt.Println("schemas refused, by keyword:", counts(keywords))
	fmt.Println("schemas that took more than 50 ms to compile:", slow)
	if missing > 0 {
		fmt.Println("schemas that the copy of the repository lacks:", missing)
	}
	printTimes(outcomes)
	if out == "" {
		return nil
	}
	data, err := json.MarshalIndent(outcomes, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, data, 0o644)
}

func caseName(f file) string { return strings.TrimSuffix(path.Base(f.path), ".json") }

// writeSchemas writes the schemas with their names, one in a line.
func writeSchemas(name string, files []file) error {
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	for _, f := range files {
		var c benchCase
		if err := json.Unmarshal(f.data, &c); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		if err := out.Encode(map[string]any{"name": caseName(f), "schema": c.Schema}); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return os.WriteFile(name, lines.Bytes(), 0o644)
}

func benchOne(name string, data []byte, row *benchRow) (outcome, error) {
	o := outcome{Name: name}
	var c benchCase
	if err := json.Unmarshal(data, &c); err != nil {
		return o, err
	}
	schema, err := decode(c.Schema)
	if err != nil {
		return o, err
	}
	row.schemas++
	began := time.Now()
	g, keyword, err := compile(c.Schema, jsonschema.Options{})
	o.Micros = time.Since(began).Microseconds()
	if err != nil {
		o.Keyword, o.Error = keyword, err.Error()
		return o, nil
	}
	o.Taken = true
	row.taken++
	order := ordersOf(schema)
	for i, test := range c.Tests {
		instance, err := decode(test.Data)
		if err != nil {
			return o, err
		}
		switch ok, _ := takes(g, order, instance); {
		case ok == test.Valid:
			row.right++
		case ok:
			row.wrongTaken++
			o.Wrong = append(o.Wrong, fmt.Sprintf("%s %d: %s", wrongAccept, i, test.Description))
		default:
			row.wrongNot++
			o.Wrong = append(o.Wrong, fmt.Sprintf("%s %d: %s", wrongRefuse, i, test.Description))
		}
	}
	return o, nil
}

func printBench(rows map[string]*benchRow) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "JSONSchemaBench\tschemas\ttaken\t%\tinstances right\twrong-accept\t"+
		"wrong-refuse\t")
	total := &benchRow{}
	print := func(name string, r *benchRow) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%d\t%d\t%d\t\n", name, r.schemas, r.taken,
			100*float64(r.taken)/float64(max(r.schemas, 1)), r.right, r.wrongTaken, r.wrongNot)
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		print(name, r)
		total.schemas += r.schemas
		total.taken += r.taken
		total.right += r.right
		total.wrongTaken += r.wrongTaken
		total.wrongNot += r.wrongNot
	}
	print("all", total)
	w.Flush()
}

func printTimes(outcomes []outcome) {
	times := make([]int64, len(outcomes))
	for i, o := range outcomes {
		times[i] = o.Micros
	}
	slices.Sort(times)
	if n := len(times); n > 0 {
		fmt.Printf("compile: median %d us, 95 %% %d us, 99 %% %d us, longest %d us\n", times[n/2],
			times[n*95/100], times[n*99/100], times[n-1])
	}
}

// explain prints what becomes of the instances of one schema, and where they are refused.
func explain(name string) error {
	files, _, err := benchSuite.files("maskbench/data/" + name + ".json")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("JSONSchemaBench has no schema %s", name)
	}
	var c benchCase
	if err := json.Unmarshal(files[0].data, &c); err != nil {
		return err
	}
	schema, err := decode(c.Schema)
	if err != nil {
		return err
	}
	g, _, err := compile(c.Schema, jsonschema.Options{})
	if err != nil {
		return err
	}
	for i, test := range c.Tests {
		instance, err := decode(test.Data)
		if err != nil {
			return err
		}
		ok, beginning := takes(g, ordersOf(schema), instance)
		fmt.Printf("%d: valid %v, taken %v\n\t%s\n", i, test.Valid, ok, test.Data)
		if !ok {
			fmt.Printf("\trefused after %s\n", beginning)
		}
	}
	return nil
}
