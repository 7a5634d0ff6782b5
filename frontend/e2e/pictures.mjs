// Takes the README's pictures of the pages from the real server with the demo model. The desktop
// test takes the picture of the menu:
// HEADROOM_SCREENSHOTS=$PWD/build/screenshots build/test desktop.
//
//   make build && (cd frontend && npm run pictures)
//
// writes to build/screenshots, or to the folder in SCREENSHOTS.
//
// It needs Chromium and ImageMagick (build/setup test). It uses a separate home folder. The models
// there have the shapes of public ones and no weights (shapes.mjs). Look at each picture before you
// commit it.
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { startBinary } from './server.mjs';
import { qwen3, writeModel } from './shapes.mjs';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const out = process.env.SCREENSHOTS || path('../../build/screenshots/');
const demo = path('../../app/demo/model/');
const installed =
  process.platform === 'darwin'
    ? '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'
    : '/usr/bin/chromium';

const server = await startBinary(
  process.env.HEADROOM_BIN || path('../../bin/headroom'),
  async (home) => {
    const hub = (name) =>
      join(home, '.cache/huggingface/hub', `models--mlx-community--${name}`, 'snapshots', 'c0ffee');
    for (const size of ['0.6B', '8B', '14B'])
      await writeModel(hub(`Qwen3-${size}-4bit`), qwen3[size], demo);
    await writeModel(
      join(home, '.lmstudio/models/mlx-community/Qwen3-32B-4bit'),
      qwen3['32B'],
      demo,
    );
    await writeModel(hub('Qwen3-1.7B-4bit'), qwen3['1.7B'], demo, { missing: true });
    await mkdir(join(home, 'config/headroom'), { recursive: true });
    await writeFile(
      join(home, 'config/headroom/settings.json'),
      '{"version": 1, "welcomed": true}',
    );
  },
);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || installed,
  args: [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
  ],
});
try {
  const page = await (
    await browser.newContext({ viewport: { width: 1100, height: 760 }, colorScheme: 'light' })
  ).newPage();
  page.setDefaultTimeout(60_000);
  const shot = async (name) => {
    await page.mouse.move(0, 0);
    const file = join(out, `${name}.png`);
    await page.screenshot({ path: file, animations: 'disabled' });
    // A palette reduces the file to a third, without a visible difference.
    execFileSync('convert', [file, '+dither', '-colors', '96', '-strip', `png8:${file}`]);
    console.log(name);
  };
  await conversations();
  await page.goto(server.url);
  await page.getByTestId('state').waitFor();

  await page.keyboard.press('Control+2');
  for (const talk of [
    ['What is the wired limit?'],
    ['Sort these words: pear, apple, fig'],
    ['What is a KV cache?', 'What is 76 - 27?'],
  ]) {
    await page.getByRole('button', { name: 'New chat' }).click();
    for (const question of talk) {
      await page.locator('textarea').fill(question);
      await page.keyboard.press('Control+Enter');
      await page
        .getByText(/tok\/s/)
        .nth(talk.indexOf(question))
        .waitFor();
      await quiet(page);
    }
  }
  await shot('chat');

  await page.keyboard.press('Control+3');
  await page.getByTestId('model').nth(4).waitFor();
  await page.getByTestId('model').filter({ hasText: 'Qwen3-8B-4bit' }).click();
  await quiet(page);
  await shot('models');

  await page.keyboard.press('Control+4');
  await page.getByTestId('verdict').waitFor();
  await page.locator('main select').first().selectOption({ label: 'Qwen3-8B-4bit' });
  await quiet(page);
  await shot('memory');

  await page.keyboard.press('Control+5');
  await page.getByTestId('cached-conversation').first().waitFor();
  await page
    .getByRole('group', { name: 'Conversations by size' })
    .getByRole('button')
    .first()
    .click();
  await quiet(page);
  await shot('cache');

  await page.getByRole('tab', { name: 'Requests' }).click();
  await page.getByTestId('finished').first().waitFor();
  const changed = page.getByTestId('finished').filter({ hasText: 'date or time changed' }).first();
  await changed.getByRole('button').first().click();
  await page.getByTestId('cache-miss').first().waitFor();
  await changed.scrollIntoViewIfNeeded();
  await shot('requests');
} finally {
  await browser.close();
  await server.kill();
}

/**
 * Creates an afternoon's conversations. Some share a beginning, and one has the time in its
 * beginning.
 */
async function conversations() {
  const notes = (count, about) =>
    Array.from(
      { length: count },
      (_, i) => `Note ${i + 1} on ${about}: Ada keeps lamp ${i + 1} in the garden.`,
    ).join(' ');
  const tools = `You edit small programs. ${notes(24, 'style')}`;
  const first = [
    ['Review this change', tools, 30],
    ['Find the race in the pool', tools, 55],
    ['Write a parser for headers', tools, 20],
    ['Refactor the store', tools, 38],
    ['Plan a week in Lisbon', 'You plan journeys.', 45],
    ['Plan a week in Porto', 'You plan journeys.', 26],
    ['Summarize the meeting of Tuesday', 'You are brief.', 70],
    ['Translate the manual', 'You translate.', 60],
    ['Explain the budget', 'You are brief.', 34],
  ];
  for (const [words, system, length] of first) {
    const messages = [
      { role: 'system', content: system },
      { role: 'user', content: `${words}. ${notes(length, words)}` },
    ];
    for (let turn = 0; turn < (length > 40 ? 3 : 1); turn++) {
      messages.push(
        { role: 'assistant', content: await answer(messages) },
        { role: 'user', content: 'And then?' },
      );
    }
  }
  for (const minute of [41, 42]) {
    await answer([
      { role: 'system', content: `It is 2026-11-20 14:${minute}. ${notes(20, 'rules')}` },
      { role: 'user', content: `Where is the lamp? ${notes(15, 'lamps')}` },
    ]);
  }
}

async function answer(messages) {
  const response = await fetch(new URL('/v1/chat/completions', server.url), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ messages, max_tokens: 40, temperature: 0 }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()).choices[0].message.content ?? '';
}

/**
 * Waits until the page has been unchanged for a moment. Charts may keep moving, so it compares only
 * a few times.
 */
async function quiet(page) {
  let before = '';
  for (let look = 0; look < 12; look++) {
    const now = await page.locator('main').innerText();
    if (now === before) return;
    before = now;
    await page.waitForTimeout(700);
  }
}
