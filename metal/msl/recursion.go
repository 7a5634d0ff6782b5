package msl

// recursion reports functions that call themselves, directly or through others: Metal forbids
// recursion, and clang would compile it. Functions are identified by name. Overloaded functions are
// left out, since their calls cannot be told apart.
func (r *reader) recursion() {
	bodies := map[string][2]int{} // name -> tokens of the body
	count := map[string]int{}
	depth := 0
	for i, t := range r.ts {
		switch t.text {
		case "{":
			depth++
		case "}":
			depth--
		}
		if !t.ident || depth > 0 || r.attribute[i] || r.ts.at(i+1).text != "(" {
			continue
		}
		body := r.ts.closing(i+1, "(", ")") + 1
		for body < len(r.ts) && (r.attribute[body] || r.ts[body].text == "const") {
			body++
		}
		if r.ts.at(body).text == "{" {
			bodies[t.text] = [2]int{body, r.ts.closing(body, "{", "}")}
			count[t.text]++
		}
	}
	calls := map[string][]string{}
	for name, body := range bodies {
		for i := body[0]; i < min(body[1], len(r.ts)); i++ {
			if callee := r.ts[i].text; count[callee] == 1 {
				calls[name] = append(calls[name], callee)
			}
		}
	}
	for _, t := range r.ts {
		if count[t.text] == 1 && reaches(calls, t.text, t.text, map[string]bool{}) {
			r.fault(t, "%s calls itself: Metal has no recursion", t.text)
			count[t.text] = 0 // reported once
		}
	}
}

func reaches(calls map[string][]string, from, target string, seen map[string]bool) bool {
	for _, callee := range calls[from] {
		if callee == target {
			return true
		}
		if !seen[callee] {
			seen[callee] = true
			if reaches(calls, callee, target, seen) {
				return true
			}
		}
	}
	return false
}
