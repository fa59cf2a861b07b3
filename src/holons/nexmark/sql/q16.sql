-- q16: how many bids, bidders and auctions each channel has in each window, in all and by price.
SELECT
    tumbling(date_time, $window_us) AS window_start, channel, max(date_time) AS last_time,
    count(*) AS total_bids,
    count(*) FILTER (price < 10000) AS rank1_bids,
    count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (price >= 1000000) AS rank3_bids,
    count(DISTINCT bidder) AS total_bidders,
    count(DISTINCT bidder) FILTER (price < 10000) AS rank1_bidders,
    count(DISTINCT bidder) FILTER (price >= 10000 AND price < 1000000) AS rank2_bidders,
    count(DISTINCT bidder) FILTER (price >= 1000000) AS rank3_bidders,
    count(DISTINCT auction) AS total_auctions,
    count(DISTINCT auction) FILTER (price < 10000) AS rank1_auctions,
    count(DISTINCT auction) FILTER (price >= 10000 AND price < 1000000) AS rank2_auctions,
    count(DISTINCT auction) FILTER (price >= 1000000) AS rank3_auctions
FROM bids
GROUP BY window_start, channel
