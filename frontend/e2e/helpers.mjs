// Helpers for the steps of several pages.
import assert from 'node:assert/strict';

export const sentences = (number) =>
  Array.from({ length: number }, (_, i) => `Ada gave lamp ${i} to Ben in the garden.`).join(' ');
/** A message whose answer has a few dozen tokens. */
export const shortText = `Repeat this text:\n\n${sentences(10)}`;
let longTexts = 0;
/** About 15,000 tokens: seconds of prefill. Each text begins differently, so no cache has it. */
export const longText = () => `Text ${++longTexts}. Repeat it:\n\n${sentences(1200)}`;

export const text = (page, id) => page.getByTestId(id).innerText();

export async function until(what, condition, ms = 20_000) {
  const end = Date.now() + ms;
  let last;
  while (Date.now() < end) {
    if ((last = await condition())) return last;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited ${ms / 1000} s for: ${what}`);
}

/** Sends a request to the control API, and returns the text of its answer. */
export async function control(server, method, path, body) {
  const { origin, hash } = new URL(server.url);
  const token = new URLSearchParams(hash.slice(1)).get('token');
  const response = await fetch(`${origin}/control/${path}`, {
    method,
    headers: { 'Content-Type': 'application/json', 'X-Headroom-Token': token },
    body: JSON.stringify(body),
  });
  const answer = await response.text();
  assert.ok(response.ok, answer);
  return answer;
}

export const goTo = (page, name) =>
  page.getByRole('navigation', { name: 'Pages' }).getByRole('button', { name }).click();
export const ready = (page) =>
  until('the state line says Ready', async () => /^Ready, /.test(await text(page, 'state')));

/** The demo model's name in the list of models. */
export const demoName = async (page) =>
  (/headroom.demo/i.exec(await page.getByRole('table', { name: 'Models' }).innerText()) ?? [''])[0];

/** Sends a message with the keyboard and returns the new answer. */
export async function ask(page, question) {
  const answers = page.getByTestId('answer');
  const before = await answers.count();
  await page.getByRole('textbox', { name: 'Message' }).fill(question);
  await page.keyboard.press('Control+Enter');
  await until('an answer appears', async () => (await answers.count()) === before + 1);
  return answers.nth(before);
}

export const finished = (answer) =>
  until(
    'the answer ends',
    async () => (await answer.getAttribute('aria-busy')) === 'false',
    60_000,
  );

/** Sends a request as another program would, and resolves when the answer has ended. */
export async function askFromOutside(server, content) {
  const response = await fetch(new URL('/v1/chat/completions', server.url), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      model: 'headroom-demo',
      messages: [{ role: 'user', content }],
      max_tokens: 8,
      stream: true,
    }),
  });
  assert.equal(response.status, 200);
  await response.text();
}

export async function setThinking(page, on) {
  const toggle = page.getByRole('switch', { name: /Thinking/ });
  if ((await toggle.getAttribute('aria-checked')) !== String(on)) await toggle.click();
}

/** Resolves when the open chat's answer has ended. */
export async function ended(page) {
  await page.getByTestId('answer').first().waitFor();
  await page.getByTestId('stop').waitFor({ state: 'detached', timeout: 60_000 });
}
