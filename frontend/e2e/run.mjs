// End-to-end tests: the built pages in a real browser against a real server.
//
//   make build && (cd frontend && npm run e2e)
//
// server.mjs chooses the server. CHROMIUM is the browser (default: Debian's Chromium, Chrome on a
// Mac). SCREENSHOTS is the folder for pictures (default .e2e). The steps run in order on one page;
// the last one ends the server.
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { openServer } from './server.mjs';
import { steps } from './steps.mjs';

const out = process.env.SCREENSHOTS || fileURLToPath(new URL('../.e2e/', import.meta.url));
await mkdir(out, { recursive: true });

const installed =
  process.platform === 'darwin'
    ? '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'
    : '/usr/bin/chromium';

const server = await openServer();
let browser;
let failed = 0;
try {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || installed,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
  const context = await browser.newContext({
    viewport: { width: 1100, height: 720 },
    colorScheme: 'light',
  });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const problems = watchPage(page, new URL(server.url).origin);
  const tools = {
    page,
    context,
    server,
    shot: (name) => page.screenshot({ path: `${out}/${name}.png`, animations: 'disabled' }),
    report: (line) => console.log(`      ${line}`),
    copied: () => page.evaluate(() => navigator.clipboard.readText()),
  };

  console.log(`e2e against ${server.name}`);
  for (const [name, step] of steps) {
    const started = performance.now();
    try {
      const skipped = await step(tools);
      if (problems.length > 0) throw new Error(problems.splice(0).join('\n'));
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      console.log(
        typeof skipped === 'string' ? `skip  ${name}: ${skipped}` : `ok    ${name} (${seconds} s)`,
      );
    } catch (cause) {
      failed++;
      problems.length = 0;
      console.log(`FAIL  ${name}\n${cause.stack ?? cause}`);
      await tools.shot(`failed-${failed}`).catch(() => {});
    }
  }
} finally {
  await browser?.close();
  await server.kill?.();
}
console.log(failed === 0 ? 'all steps passed' : `${failed} failed; pictures in ${out}`);
process.exitCode = failed === 0 ? 0 : 1;

/** Collects exceptions in the page and requests to other servers, which no step may cause. */
function watchPage(page, origin) {
  const problems = [];
  page.on('pageerror', (error) => problems.push(`exception in the page: ${error.stack}`));
  page.on('console', (message) => {
    if (/Content Security Policy/.test(message.text())) problems.push(message.text());
  });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !url.startsWith('data:'))
      problems.push(`request to elsewhere: ${url}`);
  });
  return problems;
}
