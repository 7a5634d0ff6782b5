// Ollama's client for Node.js.
import assert from 'node:assert/strict';
import { Ollama } from 'ollama';
import {
  checkOrder,
  model,
  orderQuestion,
  orderSchema,
  question,
  rules,
  run,
  timeAnswer,
  timeQuestion,
  timeResult,
  tools,
  url,
} from './checks.mjs';

const client = new Ollama({ host: url });
const user = (content) => ({ role: 'user', content });
const chat = (messages, more) =>
  client.chat({ model, messages, options: { temperature: 0 }, ...more });

await run({
  async 'lists and shows models'() {
    assert.ok((await client.list()).models.some((m) => m.name === `${model}:latest`));
    assert.ok((await client.show({ model })).capabilities.includes('tools'));
    assert.ok((await client.version()).version);
  },

  async 'chat, whole and streamed'() {
    const whole = await chat([user(question)]);
    let text = '';
    for await (const part of await chat([user(question)], { stream: true }))
      text += part.message.content;
    assert.ok(text);
    assert.equal(text, whole.message.content);
  },

  async generate() {
    const answer = await client.generate({ model, prompt: question });
    assert.ok(answer.done && answer.eval_count > 0);
  },

  async 'JSON of a schema'() {
    const { message } = await chat([user(orderQuestion)], { format: orderSchema });
    checkOrder(JSON.parse(message.content));
  },

  async 'tool round trip'() {
    const messages = [user(timeQuestion)];
    const { message } = await chat(messages, { tools });
    assert.deepEqual(message.tool_calls[0].function.arguments, { city: 'Boston' });
    messages.push(message, { role: 'tool', tool_name: 'get_time', content: timeResult });
    assert.equal((await chat(messages, { tools })).message.content, timeAnswer);
  },

  async 'a second turn from the cache'() {
    const messages = [{ role: 'system', content: rules }, user(question)];
    messages.push((await chat(messages)).message, user('How long is it?'));
    // Ollama's API does not say what is cached. build/clients reads it in the server's log.
    assert.ok((await chat(messages)).prompt_eval_count > 1000);
  },

  async 'understands errors'() {
    await assert.rejects(
      client.chat({ model: 'llama3.2', messages: [user('hi')] }),
      (e) => e.status_code === 404,
    );
  },
});
