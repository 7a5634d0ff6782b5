// Stubs that the pages and their libraries need and jsdom lacks: a canvas that draws nothing, media
// queries that never match, sizes that never change. Loaded before each test file (vite.config.ts).
const ignored: unknown = new Proxy(() => ignored, {
  get: (_, name) => (name === Symbol.toPrimitive ? () => 0 : ignored),
  set: () => true,
});

HTMLCanvasElement.prototype.getContext = (() =>
  ignored) as typeof HTMLCanvasElement.prototype.getContext;
globalThis.Path2D ??= class {
  moveTo() {}
  lineTo() {}
  rect() {}
  addPath() {}
  closePath() {}
} as unknown as typeof Path2D;
globalThis.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
};
Element.prototype.scrollTo ??= () => {};
window.matchMedia ??= (media) =>
  ({ media, matches: false, onchange: null, ...listeners }) as MediaQueryList;

const listeners = {
  addEventListener() {},
  removeEventListener() {},
  addListener() {},
  removeListener() {},
  dispatchEvent: () => true,
};
