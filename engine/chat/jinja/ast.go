package jinja

// The syntax tree of a template. Nodes never change after parsing, so several
// goroutines may render one tree at the same time.

// expr is an expression; eval is in eval.go.
type expr interface {
	eval(r *renderer, s *scope) any
}

type (
	literal  struct{ value any }
	nameExpr struct {
		name string
		line int
	}
	listExpr struct {
		items []expr
		kind  listKind
	}
	dictExpr struct {
		keys, values []expr
		line         int
	}
	// attrExpr is object.name. It looks for an attribute first, then for an item.
	attrExpr struct {
		object expr
		name   string
		line   int
	}
	// itemExpr is object[index]. It looks for an item first, then for an attribute.
	itemExpr struct {
		object, index expr
		line          int
	}
	sliceExpr struct {
		object, from, to, step expr // the last three may be nil
		line                   int
	}
	callExpr struct {
		callee expr
		args   argExprs
		line   int
	}
	filterExpr struct {
		input expr // nil in {% filter %} and {% set %} blocks, where the body is the input
		name  string
		run   filter
		args  argExprs
		line  int
	}
	testExpr struct {
		input expr
		run   predicate
		args  argExprs
		line  int
	}
	unaryExpr struct {
		op    string
		value expr
		line  int
	}
	binaryExpr struct {
		op          string
		left, right expr
		line        int
		markup      bool // a sum that is Markup in Python; see markup.go
	}
	// logicExpr is "and" or "or": it returns an operand, not a bool.
	logicExpr struct {
		or          bool
		left, right expr
	}
	notExpr struct{ value expr }
	// compareExpr is a chain: a < b <= c.
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
		line  int
	}
	concatExpr struct{ parts []expr } // a ~ b ~ c
	condExpr   struct {
		cond, then, otherwise expr // a nil otherwise gives undefined
	}
)

// argExprs are the argument expressions of a call. star and doubleStar are the
// expressions after * and **, or nil.
type argExprs struct {
	positional       []expr
	names            []string
	named            []expr
	star, doubleStar expr
}

// node is a statement; exec is in render.go.
type node interface {
	exec(r *renderer, s *scope) control
}

type (
	textNode   struct{ text string }
	outputNode struct {
		value expr
		line  int
	}
	ifNode struct {
		conds     []expr
		bodies    [][]node
		otherwise []node
		line      int
	}
	forNode struct {
		target          target
		iterable        expr
		filter          expr // nil if the loop has no "if"
		body, otherwise []node
		recursive       bool
		line            int
	}
	setNode struct {
		target target
		value  expr
		line   int
	}
	setBlockNode struct {
		target  target
		filters []*filterExpr
		body    []node
		line    int
	}
	macroNode struct {
		name     string // "caller" for a call block
		params   []string
		defaults []expr // of the last len(defaults) parameters
		body     []node
		uses     macroUses
		line     int
	}
	callNode struct {
		call   *callExpr
		caller *macroNode
		line   int
	}
	filterNode struct {
		filters []*filterExpr
		body    []node
		line    int
	}
	withNode struct {
		names  []string
		values []expr
		body   []node
	}
	scopeNode   struct{ body []node } // {% generation %}
	controlNode struct{ control control }
)

// target is what a set or for assigns to: one name, a namespace attribute
// (attr set), or a tuple of targets.
type target struct {
	name, attr string
	tuple      []target
}

// macroUses records the implicit names that a macro's body mentions. A macro that
// does not mention varargs refuses surplus arguments.
type macroUses struct{ varargs, kwargs bool }
