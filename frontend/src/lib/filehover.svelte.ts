// Whether files are dragged over something. Drag events repeat while files hover: when they stop,
// the drag has ended, even if no other event says so.

/** How long after the last event a drag has ended. */
const pauseMs = 700;

export class FileHover {
  over = $state(false);
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Notes a drag event; `counts` says whether its files can be dropped here. */
  moved(counts = true): void {
    this.over = counts;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(), pauseMs);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.over = false;
  }
}
