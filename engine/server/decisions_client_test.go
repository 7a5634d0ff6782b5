package server_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// TestDecisionsClient asks questions of each type with OpenAI's official client, about each type of
// item, and has one of its errors.
func TestDecisionsClient(t *testing.T) {
	type (
		item     = openai.DecisionNewParamsInputArrayItemUnion
		question = openai.DecisionNewParamsQuestionUnion
		value    = openai.DecisionNewParamsQuestionChoiceChoiceValueUnion
	)
	client, ctx := newClient(t), t.Context()
	params := openai.DecisionNewParams{Model: "demo", PromptCacheKey: openai.String("k"),
		Input: openai.DecisionNewParamsInputUnion{OfDecisionNewsInputArray: []item{
			{OfDecisionInputDeveloperMessage: &openai.
				DecisionNewParamsInputArrayItemDecisionInputDeveloperMessage{
				Content: openai.
					DecisionNewParamsInputArrayItemDecisionInputDeveloperMessageContentUnion{
					OfString: openai.String("You read tickets.")}}},
			{OfFunctionCall: &openai.DecisionNewParamsInputArrayItemFunctionCall{CallID: "1",
				Name: "find", Arguments: "{}"}},
			{OfFunctionCallOutput: &openai.DecisionNewParamsInputArrayItemFunctionCallOutput{
				CallID: "1",
				Output: openai.DecisionNewParamsInputArrayItemFunctionCallOutputOutputUnion{
					OfString: openai.String("two charges")}}},
			{OfCustomToolCall: &openai.DecisionNewParamsInputArrayItemCustomToolCall{CallID: "2",
				Name: "note", Input: "twice"}},
			{OfCustomToolCallOutput: &openai.DecisionNewParamsInputArrayItemCustomToolCallOutput{
				CallID: "2",
				Output: openai.DecisionNewParamsInputArrayItemCustomToolCallOutputOutputUnion{
					OfString: openai.String("noted")}}},
		}},
		Questions: []question{
			{OfPredicate: &openai.DecisionNewParamsQuestionPredicate{Name: openai.String("refund"),
				Instructions: openai.DecisionNewParamsQuestionPredicateInstructionsUnion{
					OfDecisionQuestionInputPartArray: []openai.DecisionQuestionInputPartUnionParam{
						shared.DecisionQuestionInputPartParamOfInputJSON(
							map[string]any{"claim": "They want money back."})}}}},
			{OfChoice: &openai.DecisionNewParamsQuestionChoice{
				Instructions: openai.DecisionNewParamsQuestionChoiceInstructionsUnion{
					OfString: openai.String("Which?")},
				Choices: []openai.DecisionNewParamsQuestionChoiceChoice{
					{Value: value{OfString: openai.String("true")}},
					{Value: value{OfBool: openai.Bool(true)}}}}},
			{OfScore: &openai.DecisionNewParamsQuestionScore{
				Instructions: openai.DecisionNewParamsQuestionScoreInstructionsUnion{
					OfString: openai.String("How urgent?")},
				Levels: []openai.DecisionNewParamsQuestionScoreLevel{{Label: "low"},
					{Label: "high", Description: openai.String("today")}}}},
		}}
	first, err := client.Decisions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.Decisions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Answers) != 3 {
		t.Fatalf("%d answers", len(first.Answers))
	}
	for i, a := range first.Answers {
		if a.RawJSON() != again.Answers[i].RawJSON() {
			t.Errorf("%s, then %s", a.RawJSON(), again.Answers[i].RawJSON())
		}
	}
	predicate, choice, score := first.Answers[0].AsPredicate(), first.Answers[1].AsChoice(),
		first.Answers[2].AsScore()
	if predicate.Name != "refund" || predicate.Probability <= 0 || predicate.Probability >= 1 {
		t.Errorf("%+v", predicate)
	}
	var values []any
	sum := 0.0
	for _, p := range choice.Probabilities {
		var v any
		if err := json.Unmarshal([]byte(p.Value.RawJSON()), &v); err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
		sum += p.Probability
	}
	if values[0] != "true" || values[1] != true || math.Abs(sum-1) > 1e-9 {
		t.Errorf("the values %v, the sum %v", values, sum)
	}
	if score.Score != score.Probabilities[1].Probability || score.Probabilities[1].Value != 1 ||
		score.Probabilities[0].Label != "low" {
		t.Errorf("%+v", score)
	}
	u := again.Usage
	if u.InputTokensDetails.CachedTokens == 0 || u.OutputTokens != 0 ||
		u.TotalTokens != u.InputTokens {
		t.Errorf("usage %+v", u)
	}
	params.Questions[1].OfChoice.Choices = params.Questions[1].OfChoice.Choices[:1]
	var refused *openai.Error
	if _, err := client.Decisions.New(ctx, params); !errors.As(err, &refused) ||
		refused.StatusCode != 400 || refused.Param != "questions[1].choices" ||
		!strings.Contains(refused.Message, "2 to 255") {
		t.Errorf("one choice: %v", err)
	}
}
