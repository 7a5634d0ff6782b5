// The current page. It is part of the address (#page=chat), so that a reload shows it again. In
// Headroom's window, which has no address, storage keeps it until the next start.

const storageKey = 'headroom.page';

export class Router {
  /** The id of the current page. */
  page = $state('');
  /** The conversation to open on the Chat page: an id, "new", or empty. Who opens it empties it. */
  chat = $state('');
  readonly #ids: () => readonly string[];
  readonly #storage: Storage | null;

  /**
   * ids returns the pages of the table; the first is shown when the address names none. With a
   * storage, it is the one that was shown last.
   */
  constructor(ids: () => readonly string[], storage: Storage | null = null) {
    this.#ids = ids;
    this.#storage = storage;
    this.#open(location.hash.slice(1), storage?.getItem(storageKey) ?? '');
    window.addEventListener('hashchange', () => this.open(location.hash.slice(1)));
  }

  go(page: string): void {
    this.page = page;
    this.#storage?.setItem(storageKey, page);
    history.replaceState(null, '', `#page=${page}`);
  }

  /** Goes to a place, such as "page=chat&chat=new". */
  open(place: string): void {
    this.#open(place, '');
    this.go(this.page);
  }

  #open(place: string, otherwise: string): void {
    const wanted = new URLSearchParams(place);
    const ids = this.#ids();
    const known = (id: string | null) => ids.find((one) => one === id);
    this.page = known(wanted.get('page')) ?? known(otherwise) ?? ids[0] ?? '';
    this.chat = wanted.get('chat') ?? '';
  }
}
