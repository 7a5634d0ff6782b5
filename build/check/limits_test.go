package check

import "testing"

// TestLimits checks the table of limits.
func TestLimits(t *testing.T) {
	breaches, err := checkLimits(repository(), "engine/server/LIMITS.md")
	if err != nil {
		t.Fatal(err)
	}
	report(t, breaches)
}

func TestLimitsCanFail(t *testing.T) {
	const head = limitColumns + "\n|---|---|---|---|---|\n"
	for _, c := range []struct{ document, want string }{
		{head + "| a | 1 | `a/b.most` | 400 | `TestA` |\n", ""},
		{head + "| a | 1 | `a/b.other` | 400 | `TestA`, `TestB_1` |\n", ""},
		{head + "| a | 1 | `a/b.gone` | 400 | `TestA` |\n", "a/b has no constant gone"},
		{head + "| a | 1 | `b.most` | 400 | `TestA` |\n", "b has no constant most"},
		{head + "| a | 1 | most | 400 | `TestA` |\n", "expected a constant such as"},
		{head + "| a | 1 | `a/b.most` | | `TestA` |\n", "the error is missing"},
		{head + "| a | 1 | `a/b.most` | 400 | by hand |\n", "the test is missing"},
		{head + "| a | 1 | `a/b.most` | 400 | `TestGone` |\n", "there is no test TestGone"},
		{head + "| a | 1 | 400 |\n", "expected five columns"},
		{"No table.\n", "has no table"},
	} {
		breaches, err := checkLimits(treeOf(map[string]string{"LIMITS.md": c.document,
			"a/b/b.go":      "package b\n\nconst most = 1\n\nconst (\n\tother int = 2\n)\n",
			"a/b/b_test.go": "package b\n\nfunc TestA(t int) {}\nfunc TestB_1(t int) {}\n"}),
			"LIMITS.md")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, breaches, c.want)
	}
}
