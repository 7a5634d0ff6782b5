// Figures of the window's pages, in Chromium against the fake server: first paint, and how fast the pages answer with 1,000 models and
// 10,000 conversations in the cache.
//
//   make bench-window        (a table; SAMPLES=5 unless set, JSON=FILE writes the figures too)
//
// A response is from the key or click to the frame after the page has changed, as a person sees it. The median of the samples counts.
import { writeFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';
import { startFakeServer } from './fake-server.mjs';

const samples = Number(process.env.SAMPLES ?? 5);
const installed = process.platform === 'darwin' ? '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome' : '/usr/bin/chromium';

const server = await startFakeServer(0, { models: 1000, conversations: 10_000 });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || installed,
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--js-flags=--expose-gc',
    '--enable-precise-memory-info',
  ],
});
const rows = [];
try {
  const context = await browser.newContext({ viewport: { width: 1100, height: 720 } });
  await figure('Address to first paint', 'ms', async () => {
    const page = await context.newPage();
    await page.goto(server.url, { waitUntil: 'load' });
    await page.getByTestId('state').waitFor();
    const ms = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
    await page.close();
    return ms;
  });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(server.url);
  await page.getByTestId('state').waitFor();

  for (const list of [
    { name: '1,000 models', key: '3', row: 'model', field: 'Search models', words: (i) => `model-${i + 1}` },
    { name: '10,000 conversations', key: '5', row: 'kept', field: 'Filter conversations', words: (i) => `thing ${i + 1}` },
  ]) {
    await page.keyboard.press(`Control+${list.key}`);
    await page.locator(`[data-testid="${list.row}"]`).first().waitFor();
    const field = `input[aria-label="${list.field}"]`;
    await figure(`${list.name}: search`, 'ms', (i) => response(page, 'type', field, list.words(i)));
    await response(page, 'type', field, '');
    await figure(`${list.name}: sort`, 'ms', () => response(page, 'click', `:has(> tr > th button) th:first-child button`));
    await figure(`${list.name}: scroll`, 'ms', (i) => response(page, 'scroll', `[data-testid="${list.row}"]`, (i + 1) * 3000));
  }
  await figure('JavaScript heap, both lists read', 'MB', () =>
    page.evaluate(() => {
      globalThis.gc?.();
      return performance.memory.usedJSHeapSize / 2 ** 20;
    }));
} finally {
  await browser.close();
  await server.close();
}

console.log(`| figure | median | least | most | of |\n|---|---|---|---|---|`);
for (const { name, unit, median, least, most, of } of rows) {
  console.log(`| ${name} | ${median.toFixed(1)} ${unit} | ${least.toFixed(1)} | ${most.toFixed(1)} | ${of} |`);
}
if (process.env.JSON) await writeFile(process.env.JSON, `${JSON.stringify({ samples, figures: rows }, null, 2)}\n`);

async function figure(name, unit, measure) {
  const values = [];
  for (let i = 0; i < samples; i++) values.push(await measure(i));
  values.sort((a, b) => a - b);
  rows.push({ name, unit, median: values[samples >> 1], least: values[0], most: values.at(-1), of: samples });
}

/** From what a person does to the frame that shows what came of it, in milliseconds. */
function response(page, kind, selector, value) {
  return page.evaluate(async ([what, where, to]) => {
    const target = document.querySelector(where);
    if (!target) throw new Error(`bench: there is no ${where}`);
    let scrolled = target;
    while (what === 'scroll' && scrolled.scrollHeight <= scrolled.clientHeight + 1) scrolled = scrolled.parentElement;
    const started = performance.now();
    if (what === 'click') target.click();
    else if (what === 'scroll') scrolled.scrollTop = to;
    else {
      target.value = to;
      target.dispatchEvent(new Event('input', { bubbles: true }));
    }
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - started;
  }, [kind, selector, value]);
}
