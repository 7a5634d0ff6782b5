package check

import (
	"maps"
	"testing"
)

// withoutMetal are the operators that have no Metal kernel yet. The list may only become shorter.
var withoutMetal = []string{
	"kernels/attention.Select", // SnapKV is refused on a GPU (engine/options.go)
}

func TestOperators(t *testing.T) {
	breaches, err := checkOperators(repository(), withoutMetal)
	if err != nil {
		t.Fatal(err)
	}
	report(t, breaches)

	whole := map[string]string{
		"kernels/doc.go": "package kernels",
		"kernels/norm/a.go": "package norm\nfunc (o *A) Reference() {}\nfunc aCases() " +
			"[]kernels.Case { return []kernels.Case{{New: func() { return &A{} }}} }",
		"kernels/norm/a.metal": "kernel void a() {}",
		"kernels/norm/n_test.go": "package norm\nfunc TestA(t *testing.T) { kerneltest.Run(t, " +
			"Cases()); kerneltest.RunMetal(t, Cases()) }",
		"kernels/norm/a_metal.go": "package norm\n//go:embed a.metal\nvar text string\nfunc (o " +
			"*A) Metal(c *gpu.Context) {}",
	}
	cases := []struct {
		name    string
		file    string
		text    string
		missing []string
		want    string
	}{
		{"whole", "", "", nil, ""},
		{"no Metal method", "kernels/norm/a_metal.go",
			"package norm\n//go:embed a.metal\nvar text string", nil,
			"kernels/norm.A has no Metal method"},
		{"listed as without Metal", "kernels/norm/a_metal.go",
			"package norm\n//go:embed a.metal\nvar text string",
			[]string{"kernels/norm.A"}, ""},
		{"listed although it has one", "", "", []string{"kernels/norm.A"},
			"remove it from the list"},
		{"listed but it does not exist", "", "", []string{"kernels/norm.B"},
			"remove it from the list"},
		{"no case", "kernels/norm/a.go",
			"package norm\nfunc (o *A) Reference() {}\nfunc make() any { return &A{} }", nil,
			"kernels/norm.A is in no kernels.Case"},
		{"cases not run", "kernels/norm/n_test.go",
			"package norm\nfunc TestA(t *testing.T) { kerneltest.RunMetal(t, Cases()) }", nil,
			"calls kerneltest.Run "},
		{"cases not run on Metal", "kernels/norm/n_test.go",
			"package norm\nfunc TestA(t *testing.T) { kerneltest.Run(t, Cases()) }", nil,
			"calls kerneltest.RunMetal"},
		{"a source without an operator", "kernels/norm/b.metal", "kernel void b() {}", nil,
			"kernels/norm/b.metal: nothing embeds"},
		{"a source that nothing embeds", "kernels/norm/a_metal.go",
			"package norm\nfunc (o *A) Metal(c *gpu.Context) {}", nil,
			"kernels/norm/a.metal: nothing embeds"},
		{"no operators", "kernels/norm/a.go", "package norm", nil, "found no operator"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			files := maps.Clone(whole)
			if c.file != "" {
				files[c.file] = c.text
			}
			breaches, err := checkOperators(treeOf(files), c.missing)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, breaches, c.want)
		})
	}
}
