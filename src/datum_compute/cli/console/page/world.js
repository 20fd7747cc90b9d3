// Where cities are, and where land is: rough outlines drawn by hand, longitude and latitude.

const LAND = [
  // North and Central America
  "-166 68 -156 71 -141 70 -128 70 -115 68 -102 68 -95 72 -85 69 -82 67 -87 64 -94 61 -93 58 -85 55 -80 52 -78 58 -74 62 -65 59 -56 52 -60 47 -66 44 -70 43 -74 40 -76 35 -81 31 -80 26 -82 27 -84 30 -90 29 -97 28 -97 22 -94 18 -90 21 -87 21 -88 16 -83 15 -83 10 -78 9 -82 8 -87 12 -94 16 -105 20 -109 25 -113 31 -117 33 -122 37 -124 43 -124 48 -130 54 -137 59 -147 61 -154 58 -164 55 -158 59 -165 62 -161 65",
  // Greenland, Iceland, Canada's north, Cuba, Hispaniola
  "-73 78 -60 82 -35 83 -20 80 -22 72 -32 68 -42 61 -50 62 -54 68 -58 75", "-24 65 -22 66 -15 66 -14 64 -20 63",
  "-120 76 -90 81 -65 82 -80 74 -65 67 -66 62 -78 65 -90 72 -118 72", "-85 22 -78 23 -74 20 -84 21", "-74 20 -68 19 -72 18",
  // South America
  "-78 8 -72 12 -62 11 -52 5 -50 0 -44 -3 -35 -6 -38 -13 -41 -22 -48 -26 -54 -34 -58 -38 -65 -42 -68 -50 -69 -54 -74 -52 -75 -45 -73 -37 -71 -30 -70 -19 -76 -14 -81 -6 -80 -1",
  // Eurasia
  "-9 37 -9 43 -2 44 -4 48 2 51 8 54 8 57 11 56 12 54 20 55 24 58 28 60 22 60 22 63 25 66 18 62 17 57 13 56 10 59 5 59 6 63 14 68 25 71 40 67 44 66 44 68 60 69 68 72 82 73 104 77 113 74 130 71 140 73 160 70 179 69 178 63 163 60 162 54 156 51 155 58 143 59 136 54 141 52 135 44 129 40 129 35 126 35 125 39 121 40 118 38 122 37 120 34 122 30 117 24 110 21 106 20 109 13 105 9 100 13 103 2 100 6 98 15 94 17 90 22 87 21 80 15 80 8 77 8 73 17 70 22 66 25 57 26 52 30 48 30 51 25 56 25 59 22 55 17 45 13 42 17 39 21 35 28 35 33 36 36 28 36 26 39 29 41 41 41 37 45 33 46 28 44 28 41 23 38 23 36 20 40 14 45 12 44 18 40 16 38 10 44 4 43 0 39 -2 36",
  // Great Britain, Ireland, Italy's islands, Sri Lanka
  "-5 50 1 51 0 53 -2 56 -3 58 -6 58 -5 55 -3 54 -5 52", "-10 52 -6 52 -6 55 -9 54", "8 39 10 39 9 42", "80 8 82 7 81 10",
  // Africa, Madagascar
  "-6 36 10 37 11 33 20 30 31 31 34 27 39 16 43 12 51 12 47 4 40 -3 40 -11 35 -20 33 -26 28 -33 19 -34 15 -27 12 -17 13 -8 9 0 9 4 4 6 -8 4 -13 9 -17 15 -16 24 -10 31", "44 -25 43 -17 49 -12 50 -16 47 -25",
  // Japan, Taiwan, the Philippines, the Malay islands
  "130 31 132 34 139 35 141 38 141 42 145 44 142 46 140 42 136 37 130 34", "120 22 122 25 121 25", "120 18 122 18 126 7 122 7 120 14", "95 5 104 -4 106 -6 100 0", "105 -7 114 -8 114 -7", "109 2 117 7 119 1 116 -4 110 -3", "119 0 125 1 121 -5", "131 -1 141 -3 150 -9 143 -9 138 -8",
  // Australia, Tasmania, New Zealand
  "114 -22 122 -18 130 -12 136 -12 141 -17 142 -11 146 -19 153 -26 150 -37 144 -39 138 -35 131 -32 123 -34 115 -34", "145 -41 148 -41 147 -43", "173 -35 178 -38 175 -41", "172 -41 174 -42 168 -46",
].map((text) => {
  const numbers = text.split(" ").map(Number);
  return numbers.flatMap((_, i) => (i % 2 ? [] : [[numbers[i], numbers[i + 1]]]));
});

const AIRPORTS =
  "AMS 4.8 52.3|ARN 17.9 59.7|ATL -84.4 33.6|AUS -97.7 30.2|BKK 100.7 13.7|BLR 77.7 13.2|BOG -74.1 4.7|BOM 72.9 19.1|BOS -71 42.4|BRU 4.5 50.9|CAI 31.4 30.1|CDG 2.5 49|CGK 106.7 -6.1|CPH 12.7 55.6|CPT 18.6 -34|DEL 77.1 28.6|DEN -104.7 39.9|DFW -97 32.9|DOH 51.6 25.3|DUB -6.3 53.4|DUS 6.8 51.3|DXB 55.4 25.3|EWR -74.2 40.7|EZE -58.5 -34.8|FCO 12.2 41.8|FRA 8.6 50|GIG -43.2 -22.8|GRU -46.5 -23.4|GVA 6.1 46.2|HEL 25 60.3|HKG 113.9 22.3|HND 139.8 35.5|IAD -77.5 38.9|IAH -95.3 30|ICN 126.5 37.5|IST 28.8 41.3|JFK -73.8 40.6|JNB 28.2 -26.1|KIX 135.2 34.4|KUL 101.7 2.7|LAS -115.2 36.1|LAX -118.4 33.9|LHR -0.5 51.5|LIM -77.1 -12|LIS -9.1 38.8|LOS 3.3 6.6|MAD -3.6 40.5|MAN -2.3 53.4|MEL 144.8 -37.7|MEX -99.1 19.4|MIA -80.3 25.8|MSP -93.2 44.9|MUC 11.8 48.4|MXP 8.7 45.6|NBO 36.9 -1.3|NRT 140.4 35.8|ORD -87.9 42|OSL 11.1 60.2|PDX -122.6 45.6|PER 116 -31.9|PHX -112 33.4|PRG 14.3 50.1|SCL -70.8 -33.4|SEA -122.3 47.4|SFO -122.4 37.6|SIN 104 1.4|SJC -121.9 37.4|SLC -112 40.8|STL -90.4 38.7|SYD 151.2 -33.9|TLV 34.9 32|TPE 121.2 25.1|VIE 16.6 48.1|WAW 21 52.2|YUL -73.7 45.5|YVR -123.2 49.2|YYZ -79.6 43.7|ZRH 8.5 47.5";

export const WIDTH = 1000;
export const HEIGHT = 430;
const TOP = 78;
const BOTTOM = -56;

export const project = ([longitude, latitude]) => [
  ((longitude + 170) / 350) * WIDTH,
  ((TOP - latitude) / (TOP - BOTTOM)) * HEIGHT,
];

export const PLACES = new Map(
  AIRPORTS.split("|").map((each) => {
    const [code, longitude, latitude] = each.split(" ");
    return [code, project([Number(longitude), Number(latitude)])];
  }),
);

function isLand(x, y) {
  return LAND.some((points) => {
    let inside = false;
    for (let i = 0, j = points.length - 1; i < points.length; j = i++) {
      const [xi, yi] = points[i];
      const [xj, yj] = points[j];
      if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
    }
    return inside;
  });
}

// One path of points on land, every second row moved by half a step.
export function landPath(step = 2.4) {
  const parts = [];
  for (let latitude = TOP - 1, row = 0; latitude > BOTTOM; latitude -= step, row++) {
    for (let longitude = -170 + (row % 2) * (step / 2); longitude < 180; longitude += step) {
      if (!isLand(longitude, latitude)) continue;
      const [x, y] = project([longitude, latitude]);
      parts.push(`M${x.toFixed(1)} ${y.toFixed(1)}h0`);
    }
  }
  return parts.join("");
}
