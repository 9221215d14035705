// How large a picture is shown. Pure.

interface Size {
    width: number;
    height: number;
}

const smallest = 0.1,
    largest = 4;

/** The scale at which a picture fits into its frame, at most 100 %. A high one may need to be scrolled. */
export function fitted(picture: Size, frame: Size): number {
    if (!(picture.width > 0 && picture.height > 0 && frame.width > 0)) return 1;
    const wide = Math.min(1, frame.width / picture.width);
    return Math.max(smallest, Math.min(wide, Math.max(frame.height / picture.height, wide * 0.6)));
}

/** The next scale in a direction, in steps of a quarter. */
export function stepped(scale: number, direction: 1 | -1): number {
    return Math.min(largest, Math.max(smallest, direction > 0 ? scale * 1.25 : scale / 1.25));
}
