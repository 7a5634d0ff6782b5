package jinja

// In Python, the filters safe and escape return markupsafe.Markup, a string that escapes what is
// added to it: {{ '<b>' | safe + name }} escapes name. Templates of some models use safe, although
// their prompts are no HTML, so their tool descriptions are escaped. This file knows such strings
// by the expression that makes them, not by their value: an operand of + is markup if it is a
// filter that returns Markup, or a sum with such an operand. A markup string in a variable is an
// ordinary one here.

// markupFilters return Markup.
var markupFilters = map[string]bool{"safe": true, "escape": true, "e": true, "forceescape": true}

// isMarkup reports whether an expression returns Markup in Python.
func isMarkup(e expr) bool {
	switch e := e.(type) {
	case *filterExpr:
		return markupFilters[e.name]
	case *binaryExpr:
		return e.markup
	}
	return false
}

// sumsMarkup reports whether left + right is Markup. The parser asks once for each sum.
func sumsMarkup(op string, left, right expr) bool {
	return op == "+" && (isMarkup(left) || isMarkup(right))
}

// escaped returns a, an operand of a markup sum. It is escaped if it is an ordinary string.
func (e *binaryExpr) escaped(r *renderer, operand expr, a any) any {
	if text, ok := a.(string); ok && e.markup && !isMarkup(operand) {
		return r.mapPieces(text, escapeHTML)
	}
	return a
}
