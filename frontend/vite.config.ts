// Builds, serves and tests the UI.
//
// Every address in the output is relative ("./"), because the same files are served at
// http://127.0.0.1:PORT/ and inside the Wails window at wails://.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** Where `npm run dev` finds a running server; add ?fake to the page's address to need none. */
const engine = 'http://127.0.0.1:11811';

/** Leaves KaTeX's fonts in WOFF2 alone: every browser that runs these pages reads it. */
const onlyWoff2: Plugin = {
  name: 'only-woff2',
  enforce: 'pre',
  transform(code, id) {
    if (!/katex\.min\.css/.test(id)) return null;
    return code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\(["'][^"']*["']\)/g, '');
  },
};

export default defineConfig(({ mode }) => ({
  base: './',
  plugins: [svelte(), onlyWoff2],
  // Component tests mount real components: they need Svelte's browser build under Node.
  resolve: mode === 'test' ? { conditions: ['browser'] } : {},
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
  },
  server: {
    proxy: { '/control': engine, '/v1': engine },
  },
  test: {
    environment: 'jsdom',
    // Stylesheets keep their text: tokens.test.ts computes with it.
    css: true,
    include: ['src/**/*.test.ts'],
    setupFiles: ['src/jsdom.ts'],
    restoreMocks: true,
    // Much longer than any test takes on a busy machine: it ends only tests that hang.
    testTimeout: 120_000,
  },
}));
