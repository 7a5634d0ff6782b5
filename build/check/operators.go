package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Rules for the operator families (kernels/*). Every operator has a kernel for each device, and
// cases that compare it with its reference. Every .metal source belongs to an operator.

// family lists the declarations of one folder of kernels.
type family struct {
	dir       string
	operators []string        // types with a method Reference: "RMSNorm"
	metal     map[string]bool // types with a method Metal
	cases     map[string]bool // types of composite literals in files that use kernels.Case
	calls     map[string]bool // functions of kerneltest that its tests call
	embedded  map[string]bool // files in go:embed
	files     map[string]bool // all names in the folder
}

// checkOperators requires a Metal method and cases for every operator, tests that run the cases on
// CPU and Metal, and that every .metal source is embedded. withoutMetal lists the operators that
// have no Metal kernel yet ("kernels/norm.RMSNorm"). It must not name any other operator.
func checkOperators(tree fs.FS, withoutMetal []string) ([]string, error) {
	folders, err := fs.Glob(tree, "kernels/*")
	if err != nil {
		return nil, err
	}
	var breaches []string
	missing := map[string]bool{}
	for _, name := range withoutMetal {
		missing[name] = true
	}
	found := 0
	for _, dir := range folders {
		if helper(dir) {
			continue
		}
		f, err := readFamily(tree, dir)
		if err != nil {
			return nil, err
		}
		found += len(f.operators)
		breaches = append(breaches, f.check(missing)...)
	}
	for name := range missing {
		breaches = append(breaches,
			fmt.Sprintf("%s is listed as an operator without a Metal kernel, but it has one or "+
				"does not exist: remove it from the list", name))
	}
	if found == 0 {
		breaches = append(breaches,
			"kernels: found no operator, a type with a method Reference: the rule would pass on "+
				"nothing")
	}
	return sorted(breaches), nil
}

// check returns f's breaches. It removes from missing the operators that have no Metal kernel.
func (f *family) check(missing map[string]bool) []string {
	var breaches []string
	metal := false
	for _, operator := range f.operators {
		name := f.dir + "." + operator
		metal = metal || f.metal[operator]
		if !f.metal[operator] && !missing[name] {
			breaches = append(breaches,
				fmt.Sprintf("%s has no Metal method. Write its kernel: CONTRIBUTING.md, "+
					"\"Add a Metal kernel\"", name))
		}
		if !f.metal[operator] {
			delete(missing, name)
		}
		if !f.cases[operator] {
			breaches = append(breaches,
				fmt.Sprintf("%s is in no kernels.Case, so nothing compares it with its reference",
					name))
		}
	}
	if len(f.operators) > 0 && !f.calls["Run"] {
		breaches = append(breaches,
			fmt.Sprintf("%s: no test calls kerneltest.Run with the family's cases", f.dir))
	}
	if metal && !f.calls["RunMetal"] {
		breaches = append(breaches,
			fmt.Sprintf("%s: no test calls kerneltest.RunMetal with the family's cases", f.dir))
	}
	for file := range f.files {
		if strings.HasSuffix(file, ".metal") && !f.embedded[file] {
			breaches = append(breaches,
				fmt.Sprintf("%s/%s: nothing embeds the source, so no operator's Metal method "+
					"dispatches it", f.dir, file))
		}
	}
	return breaches
}

func readFamily(tree fs.FS, dir string) (*family, error) {
	f := &family{dir: dir, metal: map[string]bool{}, cases: map[string]bool{},
		calls: map[string]bool{}, embedded: map[string]bool{}, files: map[string]bool{}}
	entries, err := fs.ReadDir(tree, dir)
	if err != nil {
		return f, nil // a file
	}
	for _, entry := range entries {
		name := entry.Name()
		f.files[name] = true
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		text, err := fs.ReadFile(tree, path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, "_test.go") {
			f.readTest(file)
		} else {
			f.readSource(file)
		}
	}
	slices.Sort(f.operators)
	return f, nil
}

func (f *family) readTest(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := selected(call.Fun, "kerneltest"); ok {
				f.calls[name] = true
			}
		}
		return true
	})
}

func (f *family) readSource(file *ast.File) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if names, ok := strings.CutPrefix(c.Text, "//go:embed "); ok {
				for _, name := range strings.Fields(names) {
					f.embedded[name] = true
				}
			}
		}
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if receiver := receiverType(function); receiver != "" {
			switch function.Name.Name {
			case "Reference":
				f.operators = append(f.operators, receiver)
			case "Metal":
				f.metal[receiver] = true
			}
		}
	}
	f.readCases(file)
}

// readCases records the types of composite literals in a file that uses kernels.Case.
func (f *family) readCases(file *ast.File) {
	var types []string
	usesCase := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			name, ok := selected(n, "kernels")
			usesCase = usesCase || ok && name == "Case"
		case *ast.CompositeLit:
			if id, ok := n.Type.(*ast.Ident); ok {
				types = append(types, id.Name)
			}
		}
		return true
	})
	for _, name := range types {
		f.cases[name] = f.cases[name] || usesCase
	}
}

// receiverType returns the type of a method's receiver, "" for a function.
func receiverType(function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) != 1 {
		return ""
	}
	t := function.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// selected returns Name of an expression pkg.Name.
func selected(e ast.Expr, pkg string) (name string, ok bool) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	id, ok := s.X.(*ast.Ident)
	return s.Sel.Name, ok && id.Name == pkg
}
