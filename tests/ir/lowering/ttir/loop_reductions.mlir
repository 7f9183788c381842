// RUN: vk-opt --lower-to-ttir %s | filecheck %s
// Reductions that Triton may move out of their loop stay bare; a select guards the others: where the loop reads the
// running value, where another operation combines the reduced values, and where each iteration begins anew.

vk.mapped @rows(%x: !vk.tensor<[N, M, 8], f32>, %out: !vk.tensor<[N, M], f32>) facts {sizes = {M = 4}, multiples = {}, strides = {x = [32, 8, 1], out = [4, 1]}} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %n = vk.size N
  vk.launch "rows" over (%p = %c1) {
    %zero = arith.constant 0.0 : f32
    %start = vk.broadcast %zero : f32 -> tensor<4xf32, #vk.axes<i>>
    %total, %running, %largest, %last = scf.for %k = %c0 to %n step %c1 iter_args(%t = %start, %r = %start, %l = %start, %u = %start) -> (tensor<4xf32, #vk.axes<i>>, tensor<4xf32, #vk.axes<i>>, tensor<4xf32, #vk.axes<i>>, tensor<4xf32, #vk.axes<i>>) : i64 {
      %row = vk.load %x[%k, i, j] : !vk.tensor<[N, M, 8], f32> -> tensor<4x8xf32, #vk.axes<i, j>>
      %square = arith.mulf %row, %row : tensor<4x8xf32, #vk.axes<i, j>>
      %double = arith.addf %row, %row : tensor<4x8xf32, #vk.axes<i, j>>
      %s0 = vk.sum %row along j : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<4xf32, #vk.axes<i>>
      %plain = arith.addf %t, %s0 : tensor<4xf32, #vk.axes<i>>
      %s1 = vk.sum %square along j : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<4xf32, #vk.axes<i>>
      %seen = arith.addf %r, %s1 : tensor<4xf32, #vk.axes<i>>
      vk.store %r in %out[%k, i] : !vk.tensor<[N, M], f32> <- tensor<4xf32, #vk.axes<i>>
      %s2 = vk.sum %double along j : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<4xf32, #vk.axes<i>>
      %larger = arith.maximumf %l, %s2 : tensor<4xf32, #vk.axes<i>>
      %s3 = vk.max %double along j : tensor<4x8xf32, #vk.axes<i, j>> -> tensor<4xf32, #vk.axes<i>>
      %anew = arith.maximumf %start, %s3 : tensor<4xf32, #vk.axes<i>>
      scf.yield %plain, %seen, %larger, %anew : tensor<4xf32, #vk.axes<i>>, tensor<4xf32, #vk.axes<i>>, tensor<4xf32, #vk.axes<i>>, tensor<4xf32, #vk.axes<i>>
    }
    %a = arith.addf %total, %running : tensor<4xf32, #vk.axes<i>>
    %b = arith.addf %largest, %last : tensor<4xf32, #vk.axes<i>>
    %c = arith.addf %a, %b : tensor<4xf32, #vk.axes<i>>
    vk.store %c in %out[%c0, i] : !vk.tensor<[N, M], f32> <- tensor<4xf32, #vk.axes<i>>
  }
}

// CHECK:      scf.for [[K:%[a-z0-9_]+]] = %{{.*}} to [[N:%[a-zA-Z0-9_]+]] step %{{.*}} iter_args(%t = %{{.*}}, %r = %{{.*}}, %l = %{{.*}}, %u = %{{.*}})
// CHECK:      [[GOES:%[0-9]+]] = arith.cmpi ne, [[K]], [[N]] : i64
// CHECK-NEXT: [[ALL:%[0-9]+]] = "tt.splat"([[GOES]]) : (i1) -> tensor<4xi1>
// CHECK-NEXT: [[SEEN:%[a-z0-9_]+]] = arith.select [[ALL]], %seen, %r :
// CHECK:      [[LARGER:%[a-z0-9_]+]] = arith.select %{{[0-9]+}}, %larger, %l :
// CHECK:      [[ANEW:%[a-z0-9_]+]] = arith.select %{{[0-9]+}}, %anew, %u :
// CHECK-NEXT: scf.yield %plain, [[SEEN]], [[LARGER]], [[ANEW]] :
