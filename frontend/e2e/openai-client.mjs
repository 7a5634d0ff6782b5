// Runs OpenAI's npm client against the server as an application would: complete and streamed
// answers, and the errors that it must understand. server.mjs chooses the server. The model is the
// first one that the server lists. This is part of make test. To run it alone:
// make build && (cd frontend && npm run e2e:client)
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { openServer } from './server.mjs';

const server = await openServer();
const client = new OpenAI({
  baseURL: new URL('/v1', server.url).href,
  apiKey: 'none needed',
  maxRetries: 0,
});
const question = { messages: [{ role: 'user', content: 'What is a KV cache?' }], temperature: 0 };

const checks = {
  async 'lists the model'() {
    const { data } = await client.models.list();
    assert.equal(data[0].state, 'loaded'); // loaded models come first
    question.model = data[0].id;
    assert.equal((await client.models.retrieve(question.model)).id, question.model);
  },

  async 'streams what it also answers whole'() {
    const whole = await client.chat.completions.create(question);
    assert.equal(whole.choices[0].finish_reason, 'stop');
    assert.ok(whole.choices[0].message.content.length > 20, whole.choices[0].message.content);
    const stream = client.chat.completions.stream({
      ...question,
      stream_options: { include_usage: true },
    });
    const answer = await stream.finalChatCompletion();
    assert.equal(answer.choices[0].message.content, whole.choices[0].message.content);
    assert.deepEqual(answer.usage.completion_tokens, whole.usage.completion_tokens);
    assert.equal(typeof answer.usage.prompt_tokens_details.cached_tokens, 'number');
  },

  async 'keeps reasoning out of the content'() {
    const stream = await client.chat.completions.create({
      ...question,
      messages: [{ role: 'user', content: 'Sort: pear, apple, fig' }],
      chat_template_kwargs: { enable_thinking: true },
      stream: true,
    });
    let content = '';
    let reasoning = '';
    for await (const { choices } of stream) {
      content += choices[0]?.delta.content ?? '';
      reasoning += choices[0]?.delta.reasoning_content ?? '';
      assert.equal(choices[0]?.delta.reasoning, choices[0]?.delta.reasoning_content);
    }
    assert.ok(
      content.length > 0 && reasoning.length > 0,
      `content ${content}, reasoning ${reasoning}`,
    );
    assert.ok(!/<\/?think>/.test(content + reasoning));
  },

  async 'calls a tool and answers with its result'() {
    const parameters = {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    };
    const tools = [
      {
        type: 'function',
        function: { name: 'get_time', description: 'Get the local time in a city.', parameters },
      },
    ];
    const messages = [{ role: 'user', content: 'Tell me the time in Boston.' }];
    const ask = (q) => client.chat.completions.create({ ...question, tools, messages, ...q });
    const { choices } = await ask({});
    assert.equal(choices[0].finish_reason, 'tool_calls');
    assert.equal(choices[0].message.content, null);
    const [call, ...more] = choices[0].message.tool_calls;
    assert.deepEqual(
      [call.type, call.function.name, JSON.parse(call.function.arguments), more],
      ['function', 'get_time', { city: 'Boston' }, []],
    );

    const stream = client.chat.completions.stream({ ...question, tools, messages });
    const streamed = (await stream.finalChatCompletion()).choices[0];
    assert.equal(streamed.finish_reason, 'tool_calls');
    assert.ok(!streamed.message.content, streamed.message.content);
    assert.deepEqual(
      streamed.message.tool_calls.map((c) => c.function.arguments),
      [call.function.arguments],
    );

    messages.push(choices[0].message, {
      role: 'tool',
      tool_call_id: call.id,
      content: '{"time": "01:54"}',
    });
    const answer = (await ask({})).choices[0];
    assert.equal(answer.message.content, 'It is 01:54 in Boston.');
    assert.equal(answer.finish_reason, 'stop');
    // A call is required where the model would answer.
    const forced = (await ask({ tool_choice: 'required', parallel_tool_calls: false })).choices[0];
    assert.equal(forced.finish_reason, 'tool_calls');
    assert.equal(forced.message.tool_calls[0].function.name, 'get_time');
    assert.equal(typeof JSON.parse(forced.message.tool_calls[0].function.arguments).city, 'string');
    await assert.rejects(
      ask({ tool_choice: 'sometimes' }),
      (error) => error.status === 400 && error.param === 'tool_choice',
    );
  },

  async 'answers in a given form'() {
    const schema = {
      type: 'object',
      properties: { city: { enum: ['Rome', 'Oslo'] }, degrees: { type: 'integer', maximum: 40 } },
      required: ['city', 'degrees'],
      additionalProperties: false,
    };
    const answer = await client.chat.completions.create({
      ...question,
      max_completion_tokens: 100,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'weather', strict: true, schema },
      },
    });
    const { city, degrees, ...others } = JSON.parse(answer.choices[0].message.content);
    assert.ok(['Rome', 'Oslo'].includes(city) && degrees <= 40, JSON.stringify({ city, degrees }));
    assert.deepEqual(others, {});
  },

  async 'gives probabilities'() {
    const answer = await client.chat.completions.create({
      ...question,
      logprobs: true,
      top_logprobs: 3,
      max_completion_tokens: 8,
    });
    assert.equal(answer.choices[0].finish_reason, 'length');
    for (const token of answer.choices[0].logprobs.content) {
      assert.equal(token.top_logprobs.length, 3);
      assert.equal(token.top_logprobs[0].token, token.token);
    }
  },

  async 'completes plain text'() {
    const q = { model: question.model, prompt: 'The KV cache', max_tokens: 8, temperature: 0 };
    const whole = await client.completions.create(q);
    let text = '';
    for await (const chunk of await client.completions.create({ ...q, stream: true }))
      text += chunk.choices[0]?.text ?? '';
    assert.equal(text, whole.choices[0].text);
  },

  async 'stops when the client leaves'() {
    const stream = await client.chat.completions.create({
      ...question,
      stream: true,
      logit_bias: {},
    });
    for await (const _ of stream) break; // leaving the loop closes the connection
    const after = await client.chat.completions.create({ ...question, max_tokens: 1 });
    assert.equal(after.usage.completion_tokens, 1);
  },

  async 'says what is wrong'() {
    await assert.rejects(
      client.chat.completions.create({ ...question, model: 'gpt-4' }),
      (error) => {
        assert.ok(error instanceof OpenAI.NotFoundError);
        assert.equal(error.code, 'model_not_found');
        return true;
      },
    );
    await assert.rejects(
      client.chat.completions.create({ ...question, temperature: 3 }),
      (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError);
        assert.equal(error.param, 'temperature');
        return true;
      },
    );
    const long = 'word '.repeat(40_000);
    await assert.rejects(
      client.completions.create({ model: question.model, prompt: long }),
      (error) => {
        assert.equal(error.code, 'context_length_exceeded');
        assert.match(error.message, /maximum context length is 32768 tokens\. .* \d{5} tokens/);
        return true;
      },
    );
  },
};

console.log(`OpenAI client against ${server.name}`);
try {
  for (const [name, check] of Object.entries(checks)) {
    const started = performance.now();
    try {
      await check();
      console.log(`ok    ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`);
    } catch (cause) {
      process.exitCode = 1;
      console.log(`FAIL  ${name}\n${cause.stack ?? cause}`);
    }
  }
} finally {
  await server.kill?.();
}
