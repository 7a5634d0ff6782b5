package jinja

// MapStrings returns v with f applied to every string in it, keys included. It changes no value in
// place, and returns v itself if f changes nothing.
func MapStrings(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case *List:
		items, changed := mapAll(v.Items, f)
		if !changed {
			return v
		}
		return &List{Items: items, kind: v.kind}
	case *Dict:
		keys, newKeys := mapAll(v.keys, f)
		values, newValues := mapAll(v.values, f)
		if !newKeys && !newValues {
			return v
		}
		d := NewDict()
		for i, key := range keys {
			d.set(key, values[i])
		}
		return d
	}
	return v
}

func mapAll(items []any, f func(string) string) (mapped []any, changed bool) {
	mapped = items
	for i, item := range items {
		to := MapStrings(item, f)
		if to == item {
			continue
		}
		if !changed {
			mapped, changed = append([]any{}, items...), true
		}
		mapped[i] = to
	}
	return mapped, changed
}
