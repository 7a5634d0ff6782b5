// Runs before the first paint, so that a page that a person has set to light or dark does not begin
// in the colour of the system. The colours are --bg of tokens.css; lib/appearance.ts does the rest.
(() => {
  const colours = { light: '#f4f6f6', dark: '#171b1b' };
  try {
    const chosen = localStorage.getItem('headroom.appearance');
    if (!(chosen in colours)) return;
    document.documentElement.style.colorScheme = chosen;
    document.documentElement.style.setProperty('--bg', colours[chosen]);
  } catch {
    // Without storage the system's appearance holds.
  }
})();
