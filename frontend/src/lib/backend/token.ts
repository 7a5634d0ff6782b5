// The token of this installation. It proves that the machine's owner opened the page.
//
// It arrives in the address's fragment (#token=...), which browsers never send. It moves from there
// to sessionStorage. The Wails window has no token: its proxy adds one to every request.

const storageKey = 'headroom.token';

/** Takes the token out of the address, or returns this tab's; empty if there is none. */
export function takeToken(): string {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get('token');
  if (token) {
    remember(token);
    fragment.delete('token');
    const rest = fragment.toString();
    history.replaceState(null, '', location.pathname + location.search + (rest ? `#${rest}` : ''));
    return token;
  }
  try {
    return sessionStorage.getItem(storageKey) ?? '';
  } catch {
    return '';
  }
}

function remember(token: string): void {
  try {
    sessionStorage.setItem(storageKey, token);
  } catch {
    // Storage is off: the token lives as long as the page.
  }
}
