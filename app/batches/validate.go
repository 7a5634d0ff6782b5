package batches

// The lines of an input file: what is checked of all of them before the first request runs.

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"headroom/app/batch"
)

// validate reads the lines of an input, which all ask for one endpoint. It returns their number, or
// at most maxLineErrors errors. It calls yield before each line, and ends with its error.
func validate(input io.Reader, endpoint string, yield func() error) (total int, errs []LineError,
	err error) {
	lines, seen := batch.NewLines(input), map[idHash]int32{}
	wrong := func(code, param, message string) {
		e := LineError{Code: code, Message: shortened(message), Line: new(lines.Number)}
		if param != "" {
			e.Param = &param
		}
		errs = append(errs, e)
	}
	for len(errs) < maxLineErrors && lines.Next() {
		if err := yield(); err != nil {
			return total, errs, err
		}
		if total++; total > maxLines {
			wrong("too_many_requests", "", fmt.Sprintf("The batch has more than %d requests.",
				maxLines))
			return total, errs, nil
		}
		q, why := batch.Parse(lines.Line)
		id := hashOf(q.CustomID)
		switch {
		case why == batch.NotJSON:
			wrong("invalid_json_line", "", "This line is not parseable as valid JSON.")
		case why != "":
			wrong("invalid_request", "", "This line is not a request: "+why+".")
		case q.URL != endpoint:
			wrong("mismatched_url", "url", fmt.Sprintf(
				"The url is %q, expected the endpoint of the batch, %q.", q.URL, endpoint))
		case seen[id] > 0:
			wrong("duplicate_custom_id", "custom_id", fmt.Sprintf(
				"The custom_id %.80q is that of line %d.", q.CustomID, seen[id]))
		default:
			seen[id] = int32(lines.Number)
		}
	}
	switch {
	case errors.Is(lines.Err, errDamaged):
		errs = append(errs, LineError{Code: "file_damaged", Message: "The file was damaged."})
	case lines.Err != nil:
		errs = append(errs, LineError{Code: "invalid_json_line", Line: new(lines.Number + 1),
			Message: fmt.Sprintf("This line cannot be read: %v.", lines.Err)})
	case total == 0:
		errs = append(errs, LineError{Code: "empty_file", Message: "The file has no requests."})
	}
	return total, errs, nil
}

// shortened shortens a message to maxMessageBytes.
func shortened(message string) string {
	if len(message) <= maxMessageBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessageBytes], "") + "…"
}
