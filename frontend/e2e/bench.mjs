// Measures the window's pages in Chromium against the fake server: first paint, and response times
// with 1,000 models and 10,000 conversations in the cache. Before that, `make bench-window`
// (build/bench window) measures agent and window on a desktop.
//
//   SAMPLES=5                 samples of each figure; the median counts
//   FIGURES=FILE              figures measured elsewhere, as a JSON list of {name, unit, samples}
//   JSON=FILE MARKDOWN=FILE   also writes the figures and the table to these files
//   README=FILE               a document whose marked section becomes the table
//
// A response time runs from the key press or click to the frame after the page has changed.
import { readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { chromium } from 'playwright-core';
import { startFakeServer } from './fake-server.mjs';

const samples = Number(process.env.SAMPLES ?? 5);
const installed =
  process.platform === 'darwin'
    ? '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'
    : '/usr/bin/chromium';

const server = await startFakeServer(0, { models: 1000, conversations: 10_000 });
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || installed,
  args: [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--js-flags=--expose-gc',
    '--enable-precise-memory-info',
  ],
});
const load = loadavg()[0];
const rows = process.env.FIGURES
  ? JSON.parse(await readFile(process.env.FIGURES, 'utf8')).map(summary)
  : [];
try {
  const context = await browser.newContext({ viewport: { width: 1100, height: 720 } });
  await figure('Address to first paint', 'ms', async () => {
    const page = await context.newPage();
    await page.goto(server.url, { waitUntil: 'load' });
    await page.getByTestId('state').waitFor();
    const ms = await page.evaluate(
      () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
    );
    await page.close();
    return ms;
  });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(server.url);
  await page.getByTestId('state').waitFor();

  for (const list of [
    {
      name: '1,000 models',
      key: '3',
      row: 'model',
      field: 'Search models',
      words: (i) => `model-${i + 1}`,
    },
    {
      name: '10,000 conversations',
      key: '5',
      row: 'cached-conversation',
      field: 'Filter conversations',
      words: (i) => `thing ${i + 1}`,
    },
  ]) {
    await page.keyboard.press(`Control+${list.key}`);
    await page.locator(`[data-testid="${list.row}"]`).first().waitFor();
    const field = `input[aria-label="${list.field}"]`;
    await figure(`${list.name}: search`, 'ms', (i) => response(page, 'type', field, list.words(i)));
    await response(page, 'type', field, '');
    await figure(`${list.name}: sort`, 'ms', () =>
      response(page, 'click', `:has(> tr > th button) th:first-child button`),
    );
    await figure(`${list.name}: scroll`, 'ms', (i) =>
      response(page, 'scroll', `[data-testid="${list.row}"]`, (i + 1) * 3000),
    );
  }
  await figure('JavaScript heap, both lists read', 'MB', () =>
    page.evaluate(() => {
      globalThis.gc?.();
      return performance.memory.usedJSHeapSize / 2 ** 20;
    }),
  );
} finally {
  await browser.close();
  await server.close();
}

const busy = ' **The machine was busy, so times are too long.**';
const machine = [
  `${process.platform}/${process.arch}`,
  cpus()[0]?.model.trim() ?? 'unknown processor',
  `${availableParallelism()} cores`,
].join(', ');
const date = new Date().toISOString().slice(0, 10);
const table = [
  `${machine}; ${date}; load average before ${load.toFixed(1)}, ` +
    `after ${loadavg()[0].toFixed(1)}.${load > 0.5 ? busy : ''}`,
  '',
  '| figure | median | least | most | of |',
  '|---|---|---|---|---|',
  ...rows.map(
    ({ name, unit, median, least, most, of }) =>
      `| ${name} | ${shown(median)} ${unit} | ${shown(least)} | ${shown(most)} | ${of} |`,
  ),
].join('\n');
console.log(table);
const { JSON: figuresFile, MARKDOWN: tableFile, README: document } = process.env;
if (figuresFile)
  await writeFile(
    figuresFile,
    `${JSON.stringify({ machine, date, load, figures: rows }, null, 2)}\n`,
  );
if (tableFile) await writeFile(tableFile, `${table}\n`);
if (document) await writeFile(document, replaced(await readFile(document, 'utf8'), table));

async function figure(name, unit, measure) {
  const values = [];
  for (let i = 0; i < samples; i++) values.push(await measure(i));
  rows.push(summary({ name, unit, samples: values }));
}

function summary({ name, unit, samples: values }) {
  const sorted = values.toSorted((a, b) => a - b);
  return {
    name,
    unit,
    median: sorted[sorted.length >> 1],
    least: sorted[0],
    most: sorted.at(-1),
    of: sorted.length,
  };
}

function shown(value) {
  return value.toFixed(value < 100 ? 1 : 0);
}

/** Returns the document with the table between its markers. */
function replaced(text, inside) {
  const marks = /(<!-- bench-window: from here.*?-->\n).*?(<!-- bench-window: to here -->)/s;
  if (!marks.test(text))
    throw new Error(
      `bench: ${document} has no "<!-- bench-window: from here ... -->" and ` +
        '"<!-- bench-window: to here -->" on separate lines',
    );
  return text.replace(marks, (_, from, to) => `${from}${inside}\n${to}`);
}

/** The time from an input to the frame that shows its effect, in milliseconds. */
function response(page, kind, selector, value) {
  return page.evaluate(
    async ([what, where, to]) => {
      const target = document.querySelector(where);
      if (!target) throw new Error(`bench: there is no ${where}`);
      let scrolled = target;
      while (what === 'scroll' && scrolled.scrollHeight <= scrolled.clientHeight + 1)
        scrolled = scrolled.parentElement;
      const started = performance.now();
      if (what === 'click') target.click();
      else if (what === 'scroll') scrolled.scrollTop = to;
      else {
        target.value = to;
        target.dispatchEvent(new Event('input', { bubbles: true }));
      }
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      return performance.now() - started;
    },
    [kind, selector, value],
  );
}
