package check

import "testing"

// TestTrail checks that the functions in the trail of engine/doc.go exist.
func TestTrail(t *testing.T) { report(t, checkTrail(repository(), "engine/doc.go")) }

func TestTrailCanFail(t *testing.T) {
	for _, c := range []struct{ hop, want string }{
		{"ops.Context.Linear  engine/ops  an operator", ""},
		{"ops.New             engine/ops  a function", ""},
		{"ops.Linear          engine/ops  a method of Context", "no function ops.Linear"},
		{"ops.Context.Gone    engine/ops  was renamed", "no function ops.Context.Gone"},
		{"ops.tested          engine/ops  only in a test", "no function ops.tested"},
		{"nn.New              engine/ops  of another package", "no function nn.New"},
		{"ops.New", "there is no trail"},
	} {
		tree := treeOf(map[string]string{
			"engine/doc.go": "// Package engine.\n//\n//\t" + c.hop + "\npackage engine\n",
			"engine/ops/ops.go": "package ops\n\nfunc New() {}\n\n" +
				"func (c *Context) Linear(x int) {}\n",
			"engine/ops/ops_test.go": "package ops\n\nfunc tested() {}\n",
		})
		expect(t, checkTrail(tree, "engine/doc.go"), c.want)
	}
}
