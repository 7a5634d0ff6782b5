// OpenAI's SDK for Node.js: Chat Completions, Completions and Responses.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
  cached,
  city,
  model,
  question,
  rules,
  run,
  timeAnswer,
  timeQuestion,
  timeResult,
  tools,
  url,
} from './checks.mjs';

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 });
const user = (content) => ({ role: 'user', content });
const chat = (messages, more) =>
  client.chat.completions.create({ model, messages, temperature: 0, ...more });
const respond = (more) => client.responses.create({ model, temperature: 0, ...more });

await run({
  async 'lists models'() {
    const { data } = await client.models.list();
    assert.ok(data.some((m) => m.id === model));
  },

  async 'chat, whole and streamed'() {
    const whole = await chat([user(question)]);
    const stream = client.chat.completions.stream({
      model,
      messages: [user(question)],
      temperature: 0,
    });
    const streamed = await stream.finalChatCompletion();
    assert.ok(whole.choices[0].message.content);
    assert.equal(streamed.choices[0].message.content, whole.choices[0].message.content);
  },

  async 'tool round trip in chat'() {
    const runner = client.chat.completions.runTools({
      model,
      temperature: 0,
      messages: [user(timeQuestion)],
      tools: [
        {
          type: 'function',
          function: {
            ...tools[0].function,
            parse: JSON.parse,
            function({ city }) {
              assert.equal(city, 'Boston');
              return timeResult;
            },
          },
        },
      ],
    });
    assert.equal(await runner.finalContent(), timeAnswer);
  },

  async completions() {
    const answer = await client.completions.create({ model, prompt: 'The KV', max_tokens: 4 });
    assert.equal(answer.usage.completion_tokens, 4);
  },

  async 'responses, whole and streamed'() {
    const whole = await respond({ input: question });
    const stream = client.responses.stream({ model, input: question, temperature: 0 });
    assert.ok(whole.output_text);
    assert.equal((await stream.finalResponse()).output_text, whole.output_text);
  },

  async 'tool round trip in responses'() {
    const flat = [{ type: 'function', ...tools[0].function, parameters: city, strict: false }];
    const first = await respond({ input: timeQuestion, tools: flat });
    const call = first.output.find((item) => item.type === 'function_call');
    assert.deepEqual(JSON.parse(call.arguments), { city: 'Boston' });
    const input = [
      user(timeQuestion),
      ...first.output,
      { type: 'function_call_output', call_id: call.call_id, output: timeResult },
    ];
    const last = await respond({ input, tools: flat, store: false });
    assert.equal(last.output_text, timeAnswer);
  },

  async 'parsed answers'() {
    const order = z.object({ colour: z.enum(['red', 'blue']), count: z.number().int() });
    const answer = await client.chat.completions.parse({
      model,
      messages: [user('I would like four large blue shirts, please.')],
      max_tokens: 200,
      response_format: zodResponseFormat(order, 'order'),
    });
    assert.ok(order.parse(answer.choices[0].message.parsed));
  },

  async 'decisions, twice the same'() {
    const ask = () =>
      client.decisions.create({
        model: 'default',
        input: [user('I was charged twice!')],
        questions: [
          { type: 'predicate', name: 'refund', instructions: 'They want money back.' },
          {
            type: 'choice',
            instructions: 'Which team?',
            choices: [{ value: 'a' }, { value: true }],
          },
          {
            type: 'score',
            instructions: 'How urgent?',
            levels: [{ label: 'low' }, { label: 'high' }],
          },
        ],
      });
    const first = await ask();
    assert.deepEqual((await ask()).answers, first.answers);
    const [predicate, choice, score] = first.answers;
    assert.ok(predicate.name === 'refund' && 0 <= predicate.probability);
    assert.ok(['a', true].includes(choice.choice));
    assert.ok(0 <= score.score && score.score <= 1);
  },

  async 'a second turn from the cache, in both'() {
    const messages = [{ role: 'system', content: rules }, user(question)];
    messages.push((await chat(messages)).choices[0].message, user('How long is it?'));
    const { usage } = await chat(messages);
    cached(usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens);
    const first = await respond({ instructions: rules, input: question });
    const last = await respond({
      instructions: rules,
      input: 'How long is it?',
      previous_response_id: first.id,
    });
    cached(last.usage.input_tokens_details.cached_tokens, last.usage.input_tokens);
  },

  async 'understands errors'() {
    await assert.rejects(
      client.chat.completions.create({ model: 'gpt-4', messages: [user('hi')] }),
      (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found',
    );
  },
});
